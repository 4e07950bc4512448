/** The worst unresolved incident of a run in a box: what, since when, what to do first. */
import { incidentAddress } from "../../address";
import { getIncident } from "../../api/client";
import { useLoaded } from "../../api/hooks";
import type { Incident } from "../../api/types";
import { subject, tone, urgency } from "../../format/names";
import { count, counted } from "../../format/number";
import { Ago } from "../../parts/ago";
import { Badge } from "../../parts/badge";
import { CopyButton } from "../../parts/copy";

export function Trouble({ run, incidents }: { run: string; incidents: Incident[] }) {
  const open = incidents
    .filter((incident) => incident.is_open)
    .sort((a, b) => urgency(a.severity) - urgency(b.severity) || a.started - b.started);
  const worst = open[0];
  const changes = worst ? `${worst.id} ${worst.state} ${worst.severity} ${worst.last_step}` : "";
  const { data: detail } = useLoaded(worst ? (signal) => getIncident(run, worst.id, signal) : null, [run, changes]);
  if (!worst) return null;
  const known = detail?.id === worst.id ? detail : null;
  return (
    <section class={`trouble-box tone-${tone(worst.severity)}`} aria-label="Unresolved incident">
      <div class="trouble-head">
        <Badge kind={worst.severity} />
        <h2>
          <a href={incidentAddress(run, worst.id)}>
            {subject(worst)} {worst.severity}, began at step {count(worst.started)}
            {worst.state_text !== "open" && `, ${worst.state_text}`}
          </a>
        </h2>
        <span class="muted">
          <Ago time={worst.started_time} />
          {open.length > 1 && ` · and ${counted(open.length - 1, "more unresolved incident")}`}
        </span>
      </div>
      <p>{worst.message || worst.headline}</p>
      {known?.advice[0] && (
        <p class="first">
          <strong>Do first:</strong> {known.advice[0]}
        </p>
      )}
      {known?.checkpoint && (
        <p class="muted">
          Last good checkpoint: {known.checkpoint.step !== null && `step ${count(known.checkpoint.step)}, `}
          <span class="path">{known.checkpoint.path}</span> <CopyButton text={known.checkpoint.path} label="Copy path" />
        </p>
      )}
      <a href={incidentAddress(run, worst.id)}>Why, and what else moved →</a>
    </section>
  );
}
