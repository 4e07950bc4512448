/** Settings to try: how they stand in the address, and which range a slider has. */
import type { Setting, SettingsSection } from "../api/types";

export type Tried = Record<string, Record<string, unknown>>;

/** Read settings from addresses such as `?set=kl_explosion.sigma_multiplier:5`. Unknown ones are left to the server. */
export function triedIn(query: URLSearchParams, sections: SettingsSection[]): Tried {
  const tried: Tried = {};
  for (const text of query.getAll("set")) {
    const [, section, name, value] = /^([^.]+)\.([^:]+):(.*)$/s.exec(text) ?? [];
    if (section === undefined || name === undefined || value === undefined) continue;
    const setting = sections.find((known) => known.name === section)?.settings.find((known) => known.name === name);
    (tried[section] ??= {})[name] = setting ? parsed(setting, value) : value;
  }
  return tried;
}

export function triedAsQuery(query: URLSearchParams, tried: Tried): string {
  const next = new URLSearchParams(query);
  next.delete("set");
  for (const [section, settings] of Object.entries(tried)) {
    for (const [name, value] of Object.entries(settings)) next.append("set", `${section}.${name}:${value}`);
  }
  const text = next.toString();
  return text ? `?${text}` : "";
}

function parsed(setting: Setting, text: string): unknown {
  if (setting.kind === "bool") return text === "true";
  if (setting.kind === "int" || setting.kind === "float") {
    const value = Number(text);
    return Number.isFinite(value) && text.trim() !== "" ? value : text;
  }
  return text;
}

export interface Slider {
  min: number;
  max: number;
  step: number;
}

/** A slider around a setting's value: from a fifth of its default to five times it, within what is allowed. */
export function sliderFor(setting: Setting, value: number): Slider {
  const usual = typeof setting.default === "number" && setting.default > 0 ? setting.default : 10;
  const whole = setting.kind === "int";
  const step = whole ? 1 : 10 ** Math.floor(Math.log10(usual) - 1);
  let min = Math.min(usual / 5, value);
  const max = Math.max(usual * 5, value);
  if (setting.at_least !== null) min = Math.max(min, setting.at_least);
  if (setting.default === 0) min = 0;
  if (setting.above !== null && min <= setting.above) min = setting.above + step;
  const round = (limit: number, up: boolean) => {
    const steps = limit / step;
    return Number(((up ? Math.ceil(steps - 1e-9) : Math.floor(steps + 1e-9)) * step).toPrecision(12));
  };
  return { min: round(min, true), max: round(max, false), step };
}
