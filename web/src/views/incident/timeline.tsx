/** What became of an incident, from its first alert on. */
import type { Delivery, TimelineEntry } from "../../api/types";
import { heading, tone } from "../../format/names";
import { count } from "../../format/number";
import { Moment } from "../../parts/ago";
import { Section } from "../../parts/frame";

const CALM = ["resolved", "command", "pending", "settled", "ended"];

export function Timeline({ entries }: { entries: TimelineEntry[] }) {
  return (
    <Section title="Timeline">
      <ol class="timeline">
        {entries.map((entry, at) => (
          <li key={at} class={`dot-${dot(entry)}`}>
            <div class="timeline-head">
              <strong>{heading(entry.event)}</strong>
              <span class="muted">
                {entry.step !== null && `step ${count(entry.step)} · `}
                <Moment time={entry.time} />
              </span>
            </div>
            <p>{entry.text}</p>
            {entry.message && entry.message !== entry.text && <p class="muted">{entry.message}</p>}
          </li>
        ))}
      </ol>
    </Section>
  );
}

const dot = ({ event, severity }: TimelineEntry) => (event === "resolved" ? "ok" : CALM.includes(event) ? "neutral" : tone(severity));

/** What a message was about: late events go into one. */
export const about = ({ events }: Delivery) =>
  events.map(({ event, step }) => (step === null ? event : `${event}, step ${count(step)}`)).join("; ");

export function Deliveries({ deliveries }: { deliveries: Delivery[] }) {
  return (
    <Section title="Notifications">
      {deliveries.length === 0 ? (
        <p class="muted">No notification was sent about this incident.</p>
      ) : (
        <div class="scroll-x">
          <table>
            <thead>
              <tr>
                <th scope="col">Channel</th>
                <th scope="col">About</th>
                <th scope="col">Outcome</th>
                <th scope="col">When</th>
              </tr>
            </thead>
            <tbody>
              {deliveries.map((delivery, at) => (
                <tr key={at}>
                  <td>{delivery.channel}</td>
                  <td>
                    {about(delivery)}
                  </td>
                  <td>
                    {delivery.outcome_text || delivery.outcome}
                    {delivery.attempts > 1 && ` after ${delivery.attempts} attempts`}
                    {delivery.reason && <span class="muted"> ({delivery.reason})</span>}
                  </td>
                  <td>
                    <Moment time={delivery.time} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Section>
  );
}
