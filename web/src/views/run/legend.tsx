/** What the marks in the large chart mean; only those that are there. */
import type { Baseline } from "../../api/types";
import { number } from "../../format/number";
import type { RunRecord } from "./record";

export function Legend({ baseline, record }: { baseline: Baseline | null; record: RunRecord }) {
  const alerts = record.alerts.filter((alert) => !alert.rolled_back);
  const warning = alerts.some((alert) => alert.severity === "warning");
  const critical = alerts.some((alert) => alert.severity === "critical");
  return (
    <ul class="legend muted" aria-label="Legend">
      {baseline?.enabled && (
        <>
          <li class="key-band">baseline ± 1σ ({baseline.baseline_mode}, {baseline.rolling_window} values)</li>
          <li class="key-line warning">warning, {number(baseline.sigma_multiplier)}σ</li>
          <li class="key-line critical">critical, {number(baseline.sigma_multiplier * 1.5)}σ</li>
        </>
      )}
      {warning && <li class="key-dot warning">warning alert</li>}
      {critical && <li class="key-dot critical">critical alert</li>}
      {record.incidents.length > 0 && <li class="key-span">incident</li>}
      {record.checkpoints.length > 0 && <li class="key-flag">checkpoint</li>}
      {record.rollbacks.length > 0 && <li class="key-return">rollback</li>}
      {record.run?.metrics.some((metric) => metric.non_finite > 0) && <li class="key-tick">NaN or infinite</li>}
      <li class="hint">drag to zoom, double-click to reset</li>
    </ul>
  );
}
