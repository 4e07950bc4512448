/** One incident: what happened, what to do first, why klarm says so, and what people did about it. */
import { useEffect } from "preact/hooks";
import { incidentAddress, overviewAddress, runAddress } from "../../address";
import { getIncident, getIncidents, getRun } from "../../api/client";
import { useChanges, useLoaded, useThrottled } from "../../api/hooks";
import type { IncidentDetail, Silence } from "../../api/types";
import { shown, subject } from "../../format/names";
import { count, number, timesBefore } from "../../format/number";
import { useKeys } from "../../keyboard";
import { Ago } from "../../parts/ago";
import { Badge } from "../../parts/badge";
import { CopyButton } from "../../parts/copy";
import { Crumbs, Section } from "../../parts/frame";
import { Failure, Loading, sentence } from "../../parts/notice";
import { go } from "../../router";
import { Tags } from "../run/incident_list";
import { Actions } from "./actions";
import { ArithmeticCard } from "./arithmetic";
import { Moved } from "./moved";
import { Deliveries, Timeline } from "./timeline";

const REFRESH_MS = 500;

export function IncidentView({ run, id }: { run: string | null; id: string }) {
  const { data, error, reload } = useLoaded((signal) => getIncident(run, id, signal), [run, id]);
  const refresh = useThrottled(() => readAll(), REFRESH_MS);
  const owner = data?.run.id ?? run;
  const silences = useLoaded(owner === null ? null : (signal) => getRun(owner, signal).then((whole) => whole.silences), [owner]);
  const readAll = () => {
    reload();
    silences.reload();
  };
  useChanges(owner, refresh, readAll);
  useEffect(() => {
    if (data) document.title = `${subject(data)} ${data.is_open ? data.severity : data.state_text}: ${data.run.name} – klarm`;
  }, [data]);
  useKeys({ e: () => owner !== null && void nextIncident(owner, id), "/": () => go(overviewAddress()) });

  // A run that was deleted has no incidents any more.
  if (error && (!data || error.code === "not_found")) return <Failure error={error} retry={reload} />;
  if (!data) return <Loading />;
  const silence = silences.data?.find((one) => one.signal === data.signal);
  return (
    <div class="incident">
      <Crumbs
        path={[
          { text: "All runs", address: overviewAddress() },
          { text: data.run.name, address: runAddress(data.run.id) },
          { text: `Incident ${data.number}` },
        ]}
      />
      <Head incident={data} silence={silence} />
      <Actions incident={data} silenced={silence !== undefined} onDone={readAll} />
      <div class="incident-columns">
        <div class="stack">
          <Diagnosis incident={data} />
          <Moved incident={data} />
        </div>
        <div class="stack">
          <ArithmeticCard incident={data} />
          <Timeline entries={data.timeline} />
          <Deliveries deliveries={data.deliveries} />
        </div>
      </div>
    </div>
  );
}

function Head({ incident, silence }: { incident: IncidentDetail; silence: Silence | undefined }) {
  const { signal, severity, started, ended, peak, worse, metric, level, before } = incident;
  const lasted = ended === null ? `began at step ${count(started)}` : `steps ${count(started)} to ${count(ended)}`;
  const undone = incident.reason === "rolled_back";
  const extreme = worse === "lower" ? "Lowest" : "Peak";
  const proportion = timesBefore(peak, before);
  return (
    <div class="incident-head">
      <div class="run-title">
        <h1>
          {subject(incident)} {severity}, {lasted}
        </h1>
        <Badge kind={incident.is_open ? severity : "neutral"} text={incident.state_text || incident.state} />
        <Tags incident={incident} />
      </div>
      <SinceWhen incident={incident} />
      <p class="lead">{incident.message || incident.headline}</p>
      {incident.message && incident.headline !== incident.message && <p>{incident.headline}</p>}
      <dl class="facts">
        {peak !== null && metric && (
          <div>
            <dt>
              {extreme} {shown(metric)}
            </dt>
            <dd>
              {number(peak)}
              {proportion && `, ${proportion}`}
            </dd>
          </div>
        )}
        {level !== null && (
          <div>
            <dt>Level now</dt>
            <dd>
              {number(level)}
              {before !== null && ` (before ${number(before)})`}
            </dd>
          </div>
        )}
        <div>
          <dt>Detectors</dt>
          <dd>{incident.detectors.join(", ")}</dd>
        </div>
        {incident.follows && (
          <div>
            <dt>Follows</dt>
            <dd>
              <a href={incidentAddress(incident.run.id, incident.follows)}>an earlier incident</a>
            </dd>
          </div>
        )}
      </dl>
      {undone && (
        <p>
          Rolled back: training went back to step {count(incident.last_step)}, so these steps no longer count. The charts show what was logged
          since.
        </p>
      )}
      {silence && <p class="muted">{sentence(silence.text || `${shown(signal)} is silenced`, false)}</p>}
      {incident.false_alarm && (
        <p class="muted">
          Marked as a false alarm by {incident.false_alarm.by || "somebody"}
          {incident.false_alarm.note && `: ${incident.false_alarm.note}`}
        </p>
      )}
    </div>
  );
}

/** The one answer to "since when", with the same steps as in messages. */
function SinceWhen({ incident }: { incident: IncidentDetail }) {
  const { started, opened, out_of_range_from: early } = incident;
  return (
    <p class="since">
      First alert at step {count(started)}, <Ago time={incident.started_time} />
      {early !== null && `; in hindsight, ${subject(incident)} left its normal range at step ${count(early)}`}
      {opened !== null && (opened > started ? `; reported at step ${count(opened)}` : "; reported at once")}.
    </p>
  );
}

function Diagnosis({ incident }: { incident: IncidentDetail }) {
  const { advice, diagnosis, checkpoint } = incident;
  const [first] = advice;
  return (
    <Section title={first ? "What to do first" : "What it was"} class={first ? "todo" : ""}>
      {first ? <p class="first">{first}</p> : <p>{incident.why}</p>}
      {checkpoint && (
        <div class="checkpoint">
          <span>
            Last good checkpoint{checkpoint.step !== null && `, step ${count(checkpoint.step)}`}
          </span>
          <code class="path">{checkpoint.path}</code>
          <CopyButton text={checkpoint.path} label="Copy path" />
        </div>
      )}
      {first && !checkpoint && (
        <p class="muted">
          klarm knows of no good checkpoint from before this incident. A loop of your own tells it of each with{" "}
          <code>monitor.checkpoint(step, path)</code>.
        </p>
      )}
      {diagnosis?.pattern && (
        <p>
          <strong>Likely cause:</strong> {diagnosis.cause}
          {diagnosis.step !== incident.moved?.step && `, as of step ${count(diagnosis.step)}, when it ${diagnosis.event}`}.
        </p>
      )}
    </Section>
  );
}

/** Go to the run's incident after this one; after the last, to the first. */
async function nextIncident(run: string, id: string): Promise<void> {
  const { incidents } = await getIncidents(run);
  const ordered = [...incidents].sort((a, b) => a.number - b.number);
  const next = ordered[(ordered.findIndex((one) => one.id === id) + 1) % Math.max(1, ordered.length)];
  if (next) go(incidentAddress(run, next.id));
}
