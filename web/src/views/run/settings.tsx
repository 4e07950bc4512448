/** The settings that a run used: first those that differ from the defaults. */
import { useState } from "preact/hooks";
import { whatIfAddress } from "../../address";
import { getConfig } from "../../api/client";
import { useLoaded } from "../../api/hooks";
import { Section } from "../../parts/frame";
import { shownValue } from "../compare/values";

export function Settings({ run }: { run: string }) {
  const { data } = useLoaded((signal) => getConfig(run, signal), [run]);
  const [all, setAll] = useState(false);
  if (!data) return null;
  const changed = new Map(data.changed.map((entry) => [entry.setting, entry.default]));
  const rows = all ? flattened(data.settings) : data.changed.map(({ setting, value }): [string, unknown] => [setting, value]);
  return (
    <Section
      title="Settings used"
      aside={
        <a class="button small" href={whatIfAddress(run)}>
          What if they were different?
        </a>
      }
    >
      {rows.length === 0 ? (
        <p class="muted">All settings have their defaults.</p>
      ) : (
        <table>
          <thead>
            <tr>
              <th scope="col">Setting</th>
              <th scope="col">Value</th>
              <th scope="col">Default</th>
            </tr>
          </thead>
          <tbody>
            {rows.map(([name, value]) => (
              <tr key={name}>
                <td class="path">{name}</td>
                <td class={changed.has(name) ? "path strong" : "path"}>{shownValue(value)}</td>
                <td class="path muted">{changed.has(name) ? shownValue(changed.get(name)) : all ? "same" : ""}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      <button type="button" class="button small more-settings" aria-expanded={all} onClick={() => setAll(!all)}>
        {all ? "Show only what was changed" : "Show all settings"}
      </button>
    </Section>
  );
}

/** Nested settings as lines with dotted names. */
export function flattened(settings: Record<string, unknown>, prefix = ""): [string, unknown][] {
  return Object.entries(settings).flatMap(([name, value]): [string, unknown][] =>
    value !== null && typeof value === "object" && !Array.isArray(value) && Object.keys(value).length > 0
      ? flattened(value as Record<string, unknown>, `${prefix}${name}.`)
      : [[prefix + name, value]],
  );
}
