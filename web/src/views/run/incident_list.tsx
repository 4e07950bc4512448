/** The incidents of a run: open ones first, the worst of them at the top. */
import { incidentAddress } from "../../address";
import type { Blip, Incident, PendingCommand } from "../../api/types";
import { heading, shown, subject, urgency } from "../../format/names";
import { count, counted, number } from "../../format/number";
import { Ago } from "../../parts/ago";
import { Badge } from "../../parts/badge";
import { Section } from "../../parts/frame";

interface IncidentListProps {
  run: string;
  /** Whether a detector knows any of its metrics: otherwise, no incident means nothing. */
  isWatched: boolean;
  hasSteps: boolean;
  incidents: Incident[];
  blips: Blip[];
  onShow: (incident: Incident) => void;
}

export function IncidentList({ run, isWatched, hasSteps, incidents, blips, onShow }: IncidentListProps) {
  const ordered = [...incidents].sort(
    (a, b) =>
      Number(b.is_open) - Number(a.is_open) || (a.is_open ? urgency(a.severity) - urgency(b.severity) : 0) || b.started - a.started,
  );
  const [none, why] = !isWatched
    ? ["Not watched", "Incidents need a metric that a detector knows: docs/metrics.md lists their names."]
    : hasSteps
      ? ["No incident", "Nothing has opened an incident in this run."]
      : ["No steps yet", "Nothing was watched so far."];
  return (
    <Section title={incidents.length > 0 ? counted(incidents.length, "incident") : none}>
      {incidents.length === 0 && <p class="muted">{why}</p>}
      <ul class="incidents">
        {ordered.map((incident) => (
          <li key={incident.id} class={incident.is_open ? `tone-${incident.severity}` : ""}>
            <div class="incident-line">
              <Badge kind={incident.is_open ? incident.severity : "neutral"} text={incident.is_open ? incident.severity : incident.state_text} />
              <a href={incidentAddress(run, incident.id)}>
                {incident.number}. {subject(incident)}
              </a>
              <span class="muted">
                {incident.ended === null
                  ? `began at step ${count(incident.started)}`
                  : `${incident.severity}, steps ${count(incident.started)} to ${count(incident.ended)}`}
                {isUndone(incident) && ` (training went back to step ${count(incident.last_step)})`}
                {incident.is_open && incident.state_text !== "open" && `, ${incident.state_text}`}
              </span>
              <Tags incident={incident} />
              <span class="grow" />
              <span class="muted when">
                <Ago time={incident.started_time} />
              </span>
              {!isUndone(incident) && (
                <button type="button" class="button small" onClick={() => onShow(incident)}>
                  Show in chart
                </button>
              )}
            </div>
            <p>{incident.message || incident.headline}</p>
          </li>
        ))}
      </ul>
      {blips.length > 0 && (
        <details class="blips">
          <summary class="muted">{counted(blips.length, "short alert")} that opened no incident</summary>
          <ul>
            {blips.map((blip, at) => (
              <li key={at} class="muted">
                {heading(blip.signal)}, {blip.severity}, {blip.started === blip.step ? `step ${count(blip.step)}` : `steps ${count(blip.started)} to ${count(blip.step)}`}: {blip.detectors.join(", ")}, peak {number(blip.peak)}
                {blip.rolled_back && " (rolled back)"}
              </li>
            ))}
          </ul>
        </details>
      )}
    </Section>
  );
}

/** Whether a rollback undid it: its steps are not in the charts any more. */
export const isUndone = (incident: Incident) => incident.reason === "rolled_back";

/** Acknowledgements concern notifications only, and take effect at once. */
const isWaiting = ({ command }: PendingCommand) => command !== "ack" && command !== "ack_off";

/** What people have said about an incident. */
export function Tags({ incident }: { incident: Incident }) {
  return (
    <>
      {incident.acknowledged_by.length > 0 && <span class="tag">acknowledged by {incident.acknowledged_by.join(", ")}</span>}
      {incident.silenced && <span class="tag">{shown(incident.signal)} is silenced</span>}
      {incident.false_alarm && <span class="tag">false alarm</span>}
      {incident.commands_pending.filter(isWaiting).map((command, at) => (
        <span key={at} class="tag">
          {command.command}: waiting for the next step
        </span>
      ))}
    </>
  );
}
