/** Why the alert fired, as numbers that can be checked. */
import type { IncidentDetail } from "../../api/types";
import { shown } from "../../format/names";
import { count, number } from "../../format/number";
import { Section } from "../../parts/frame";

export function ArithmeticCard({ incident }: { incident: IncidentDetail }) {
  const { arithmetic } = incident;
  if (!arithmetic) return null;
  const { detector, step, metric, value, mean, std, z, threshold, warning_at: warning, critical_at: critical } = arithmetic;
  const rows: [string, string][] =
    z !== null
      ? [
          [`${shown(metric)} at step ${count(step)}`, number(value, 4)],
          ["Baseline mean", number(mean, 4)],
          ["Standard deviation", number(std, 3)],
          ["Distance, in standard deviations (z)", number(z, 3)],
          [`Threshold (${arithmetic.severity})`, `${number(threshold)}σ`],
          ["Warning above", number(warning, 4)],
          ["Critical above", number(critical, 4)],
        ]
      : [
          ...(value === null ? [] : ([[`${shown(metric)} at step ${count(step)}`, number(value, 4)]] as [string, string][])),
          // A detector without a z-score says what it compared in numbers of its own.
          ...Object.entries(arithmetic.numbers)
            .filter(([name]) => name !== metric)
            .map(([name, its]): [string, string] => [shown(name), number(its, 4)]),
        ];
  return (
    <Section title="The arithmetic" aside={<span class="muted path">{detector}</span>}>
      {arithmetic.formula && <p class="formula path">{arithmetic.formula}</p>}
      {z === null && "score" in arithmetic.numbers && (
        <p class="muted">The score says how far the metric is from normal, in the unit of the threshold. An alert is raised above it.</p>
      )}
      <dl class="numbers">
        {rows.map(([name, text]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{text}</dd>
          </div>
        ))}
      </dl>
      {incident.alerts.total > 0 && (
        <p class="muted">
          Alerts so far:{" "}
          {Object.entries(incident.alerts.by_detector)
            .map(([name, many]) => `${name} ${count(many)}`)
            .join(", ")}
        </p>
      )}
    </Section>
  );
}
