/** In which settings the runs differ. */
import type { Comparison } from "../../api/types";
import { Section } from "../../parts/frame";
import { shownValue } from "./values";

export function Differences({ comparison }: { comparison: Comparison }) {
  const { runs, differences, same } = comparison;
  return (
    <Section title="Different settings" aside={<span class="muted">{same} settings are the same</span>}>
      {differences.length === 0 ? (
        <p class="muted">The runs were watched with the same settings.</p>
      ) : (
        <div class="scroll-x" tabIndex={0} role="region" aria-label="Table of different settings">
          <table>
            <thead>
              <tr>
                <th scope="col">Setting</th>
                {runs.map((run) => (
                  <th scope="col" key={run.id}>
                    {run.name}
                  </th>
                ))}
                <th scope="col">Default</th>
              </tr>
            </thead>
            <tbody>
              {differences.map(({ setting, default: usual, values }) => (
                <tr key={setting}>
                  <td class="path">{setting}</td>
                  {runs.map((run) => {
                    const value = shownValue(values[run.id]);
                    return (
                      <td key={run.id} class={value === shownValue(usual) ? "path muted" : "path strong"}>
                        {value}
                      </td>
                    );
                  })}
                  <td class="path muted">{shownValue(usual)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Section>
  );
}
