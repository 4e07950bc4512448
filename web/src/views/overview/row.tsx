/** One run in the overview. */
import { incidentAddress, runAddress } from "../../address";
import type { RunSummary } from "../../api/types";
import { Sparkline } from "../../charts/sparkline";
import { activityText, heading, subject, tone } from "../../format/names";
import { count, counted, number } from "../../format/number";
import { Ago } from "../../parts/ago";
import { Badge } from "../../parts/badge";
import { memo } from "../../parts/memo";

interface RowProps {
  run: RunSummary;
  top: number;
  index: number;
  current: boolean;
  selected: boolean;
  onSelect: (id: string) => void;
}

const METRICS = ["kl", "reward", "entropy"];

export const Row = memo(function Row({ run, top, index, current, selected, onSelect }: RowProps) {
  return (
    <div
      role="row"
      aria-rowindex={index + 2}
      class={`run-row tone-${tone(run.health)}${current ? " current" : ""}`}
      style={{ transform: `translateY(${top}px)` }}
      data-run={run.id}
    >
      <div role="cell" class="cell-select">
        <input type="checkbox" checked={selected} onChange={() => onSelect(run.id)} aria-label={`Select ${run.name} for a comparison`} />
      </div>
      <div role="cell" class="cell-state">
        <Badge kind={run.health} />
        <span class="muted activity">{activityText(run.activity)}</span>
      </div>
      <div role="cell" class="cell-name">
        <a class="run-name" href={runAddress(run.id)} title={run.name}>
          {run.name}
        </a>
        <span class="muted">{[run.framework, run.host].filter(Boolean).join(" · ") || run.folder}</span>
      </div>
      <div role="cell" class="cell-trouble">
        <Trouble run={run} />
      </div>
      <div role="cell" class="cell-step">
        <span class="only-narrow muted">step </span>
        {count(run.last_step)}
      </div>
      {METRICS.map((metric) => (
        <div role="cell" key={metric} class={`cell-metric cell-${metric}`}>
          <span class="only-narrow muted">{heading(metric)}</span>
          <Sparkline
            values={run.sparklines?.[metric]}
            log={metric === "kl"}
            label={`${heading(metric)}, now ${number(run.latest[metric])}`}
          />
          <span class={typeof run.latest[metric] === "string" ? "latest not-finite" : "latest"}>{number(run.latest[metric])}</span>
        </div>
      ))}
      <div role="cell" class="cell-seen muted">
        <Ago time={run.last_seen} />
      </div>
    </div>
  );
});

function Trouble({ run }: { run: RunSummary }) {
  const { worst, incidents } = run;
  if (!worst) {
    if (run.health === "empty") return <span class="muted">No step is recorded yet</span>;
    if (run.health === "unreadable") return <span class="muted">Nothing in its journal can be read</span>;
    if (run.not_watched) return <span class="muted">{run.not_watched}</span>;
    const had = incidents.total > 0 ? `${counted(incidents.total, "incident")}, all over` : "No incident";
    return <span class="muted">{had}</span>;
  }
  const more = incidents.open - 1;
  return (
    <a class="trouble" href={incidentAddress(run.id, worst.id)} title={worst.message}>
      <span class="trouble-title">
        {subject(worst)} {worst.severity}, began at step {count(worst.started)}
        {more > 0 && <span class="more"> +{more}</span>}
      </span>
      <span class="trouble-message muted">{worst.message}</span>
    </a>
  );
}
