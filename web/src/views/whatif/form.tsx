/** Sliders and choices for the settings of one detector. */
import type { Setting, SettingsSection } from "../../api/types";
import { shown } from "../../format/names";
import { number } from "../../format/number";
import { sliderFor } from "../../series/whatif";

interface FormProps {
  section: SettingsSection;
  /** What the run used. */
  recorded: Record<string, unknown>;
  tried: Record<string, unknown>;
  onTry: (name: string, value: unknown) => void;
}

export function SettingsForm({ section, recorded, tried, onTry }: FormProps) {
  return (
    <div class="settings-form">
      <p class="muted">{section.about.replaceAll("`", "")}</p>
      {ownFirst(section.settings).map((setting) => {
        const used = recorded[setting.name] ?? setting.default;
        const value = tried[setting.name] ?? used;
        const isTried = Object.hasOwn(tried, setting.name) && tried[setting.name] !== used;
        return (
          <div key={setting.name} class={isTried ? "setting tried" : "setting"}>
            <Control id={`${section.name}.${setting.name}`} setting={setting} value={value} onTry={(next) => onTry(setting.name, next)} />
            <p class="muted">
              {setting.meaning}
              {isTried && ` (the run used ${typeof used === "number" ? number(used) : String(used)})`}
            </p>
          </div>
        );
      })}
    </div>
  );
}

// Settings that every detector has; those of its own are what one came for.
const SHARED = ["enabled", "warmup_steps", "confirm_steps", "resolve_after"];

function ownFirst(settings: Setting[]): Setting[] {
  return [...settings.filter(({ name }) => !SHARED.includes(name)), ...settings.filter(({ name }) => SHARED.includes(name))];
}

interface ControlProps {
  id: string;
  setting: Setting;
  value: unknown;
  onTry: (value: unknown) => void;
}

function Control({ id, setting, value, onTry }: ControlProps) {
  const label = shown(setting.name);
  if (setting.kind === "bool") {
    return (
      <label>
        {label}
        <input type="checkbox" checked={value === true} onChange={(event) => onTry(event.currentTarget.checked)} />
      </label>
    );
  }
  if (setting.choices.length > 0) {
    return (
      <div class="setting-label">
        <span id={`${id}.label`}>{label}</span>
        <div class="segments" role="group" aria-labelledby={`${id}.label`}>
          {setting.choices.map((choice) => (
            <button key={choice} type="button" class="button small" aria-pressed={value === choice} onClick={() => onTry(choice)}>
              {choice}
            </button>
          ))}
        </div>
      </div>
    );
  }
  if ((setting.kind === "int" || setting.kind === "float") && typeof value === "number") {
    const { min, max, step } = sliderFor(setting, value);
    const read = (text: string) => {
      const next = Number(text);
      if (text.trim() !== "" && Number.isFinite(next)) onTry(next);
    };
    return (
      <>
        <label for={id}>{label}</label>
        <div class="setting-row">
          <input id={id} type="range" min={min} max={max} step={step} value={value} onInput={(event) => read(event.currentTarget.value)} />
          <input type="number" aria-label={`${label}, exactly`} step="any" value={value} onChange={(event) => read(event.currentTarget.value)} />
        </div>
      </>
    );
  }
  return (
    <label>
      {label}
      <input type="text" value={String(value)} onChange={(event) => onTry(event.currentTarget.value)} />
    </label>
  );
}
