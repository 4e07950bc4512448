/** The alerts and incidents that a run would have had with other settings. */
import { useEffect, useMemo } from "preact/hooks";
import { overviewAddress, runAddress } from "../../address";
import { getConfig, getIncidents, getRun, getSeries, getSettings, tryWhatIf } from "../../api/client";
import { useLoaded } from "../../api/hooks";
import type { Incident, Run, SettingsSection, WhatIf } from "../../api/types";
import { Chart } from "../../charts/chart";
import { dots, inLanes, spans, type Span } from "../../charts/layers";
import { heading, subject } from "../../format/names";
import { count, counted } from "../../format/number";
import { Badge } from "../../parts/badge";
import { CopyButton } from "../../parts/copy";
import { Crumbs, Section } from "../../parts/frame";
import { Failure, Loading, sentence } from "../../parts/notice";
import { go, setQuery } from "../../router";
import { logFloor } from "../../series/scale";
import { nearest } from "../../series/tail";
import { triedAsQuery, triedIn, type Tried } from "../../series/whatif";
import { SettingsForm } from "./form";

const USUAL_DETECTOR = "kl_explosion";
// A slider that is moved asks once it rests.
const REST_MS = 180;
// How many rows are tried at first, which takes about a second, and how many the server accepts.
const USUAL_STEPS = 10_000;
const MAX_STEPS = 200_000;

export function WhatIfView({ id, query }: { id: string; query: URLSearchParams }) {
  const run = useLoaded((signal) => getRun(id, signal), [id]);
  const settings = useLoaded(getSettings, []);
  const config = useLoaded((signal) => getConfig(id, signal), [id]);
  const incidents = useLoaded((signal) => getIncidents(id, signal), [id]);
  useEffect(() => {
    if (run.data) document.title = `What if: ${run.data.name} – klarm`;
  }, [run.data?.name]);
  const failed = [run, settings, config].find((part) => part.error && !part.data);
  if (failed?.error) return <Failure error={failed.error} retry={failed.reload} />;
  if (!run.data || !settings.data || !config.data) return <Loading />;
  return (
    <Loaded run={run.data} sections={settings.data.sections} config={config.data.settings} recorded={incidents.data?.incidents ?? []} query={query} />
  );
}

interface LoadedProps {
  run: Run;
  sections: SettingsSection[];
  config: Record<string, unknown>;
  recorded: Incident[];
  query: URLSearchParams;
}

function Loaded({ run, sections, config, recorded, query }: LoadedProps) {
  const tried = useMemo(() => triedIn(query, sections), [query, sections]);
  const section = sections.find((one) => one.name === query.get("detector")) ?? sections.find((one) => one.name === USUAL_DETECTOR) ?? sections[0];
  const logged = run.steps + run.rolled_back;
  const steps = query.has("all") ? Math.max(1, Math.min(logged, MAX_STEPS)) : USUAL_STEPS;
  const key = JSON.stringify([tried, steps]);
  const result = useLoaded(async (signal) => {
    await rest(signal);
    return { key, answer: await tryWhatIf(run.id, tried, steps, signal) };
  }, [run.id, key]);
  if (!section) return null;

  const change = (name: string, value: unknown) => {
    const next: Tried = { ...tried, [section.name]: { ...tried[section.name], [name]: value } };
    history.replaceState(null, "", location.pathname + triedAsQuery(query, next));
    dispatchEvent(new PopStateEvent("popstate"));
  };
  const used = (config[section.name] ?? {}) as Record<string, unknown>;
  const answer = result.data?.answer ?? null;
  const busy = result.data?.key !== key && !result.error;
  return (
    <div class="what-if">
      <Crumbs
        path={[
          { text: "All runs", address: overviewAddress() },
          { text: run.name, address: runAddress(run.id) },
          { text: "What if" },
        ]}
      />
      <div class="run-title">
        <h1>What if the settings were different?</h1>
      </div>
      <p class="muted">
        The recorded run goes through the monitor again, with all detectors and the settings below. Nothing is changed or sent. An alert is
        what a detector says of one step; an incident is what you would have been notified of.
      </p>
      <div class="toolbar">
        <label>
          <span class="muted">Detector</span>
          <select value={section.name} onChange={(event) => setQuery({ detector: event.currentTarget.value })}>
            {sections.map((one) => (
              <option key={one.name} value={one.name}>
                {one.name}
                {tried[one.name] ? " (changed)" : ""}
              </option>
            ))}
          </select>
        </label>
        {query.has("set") && (
          <button type="button" class="button" onClick={() => go(location.pathname)}>
            Back to the run's settings
          </button>
        )}
      </div>
      {answer && <Outcome answer={answer} />}
      {answer?.truncated && <Truncated answer={answer} logged={logged} />}
      <div class="what-if-columns">
        <Section title={section.name}>
          <SettingsForm section={section} recorded={used} tried={tried[section.name] ?? {}} onTry={change} />
        </Section>
        <div class="stack">
          {result.error && (
            <p class="not-finite" role="alert">
              {sentence(result.error.message)}
            </p>
          )}
          {answer ? (
            <div class={busy ? "stack what-if-result busy" : "stack what-if-result"} aria-busy={busy}>
              <Section title="On the curve">
                <Curve run={run} section={section} answer={answer} recorded={recorded} />
              </Section>
              <Incidents answer={answer} />
              <Section title="klarm.yaml" aside={<CopyButton text={answer.yaml} label="Copy YAML" />}>
                <pre tabIndex={0}>{answer.yaml.trim() && answer.yaml.trim() !== "{}" ? answer.yaml : "# as the run was watched"}</pre>
              </Section>
            </div>
          ) : (
            !result.error && <Loading />
          )}
        </div>
      </div>
    </div>
  );
}

function Outcome({ answer }: { answer: WhatIf }) {
  return (
    <div class="outcome" role="status">
      <div>
        <span class="muted">Recorded</span>
        <strong>{counted(answer.recorded.incidents, "incident")}</strong>
        {counted(answer.recorded.alerts_total, "alert")}
      </div>
      <div>
        <span class="muted">With these settings</span>
        <strong>{counted(answer.incidents.length, "incident")}</strong>
        {counted(answer.alerts_total, "alert")}
      </div>
    </div>
  );
}

/** Say that only a part of a long run was tried, and offer the rest. */
function Truncated({ answer, logged }: { answer: WhatIf; logged: number }) {
  const available = Math.min(logged, MAX_STEPS);
  return (
    <p role="note">
      Both counts are of the last {count(answer.steps)} of {count(logged)} rows, from step {count(answer.first_step)} on.{" "}
      {answer.steps < available && (
        <button type="button" class="button small" onClick={() => setQuery({ all: "1" })}>
          Try {available < logged ? `the last ${count(available)}` : `all ${count(available)}`} rows: about {Math.ceil((answer.seconds / answer.steps) * available)} s
        </button>
      )}
    </p>
  );
}

interface CurveProps {
  run: Run;
  section: SettingsSection;
  answer: WhatIf;
  recorded: Incident[];
}

/** The detector's metric twice: with what was recorded, and with what would have been. */
function Curve({ run, section, answer, recorded }: CurveProps) {
  const { signal, metrics: [metric = "kl"] } = section;
  // Below `incidents`, there is no detector: then all alerts are shown.
  const own = answer.alerts.filter((alert) => alert.detector === section.name || signal === "");
  const name = run.metrics.some((one) => one.name === metric) ? metric : (run.metrics[0]?.name ?? metric);
  const loaded = useLoaded((signal) => getSeries(run.id, [name], { axis: "step", width: Math.min(900, innerWidth) }, signal), [run.id, name]);
  const series = loaded.data?.[name];
  if (!series) return null;
  const log = name === "kl" && series.y.every((value) => value >= 0);
  const floor = log ? logFloor(series.y) : 0;
  const halves: [string, Span[], boolean][] = [
    ["Recorded", recorded.map((one) => ({ from: one.started, to: one.ended, severity: one.severity, label: subject(one), shaded: one.signal === signal })), false],
    ["With these settings", answer.incidents.map((one) => ({ from: one.started, to: one.ended, severity: one.severity, label: subject(one), shaded: one.signal === signal })), true],
  ];
  return (
    <>
      {halves.map(([title, list, tried]) => (
        <figure class="metric" key={title} data-name={title}>
          <figcaption>
            <h3 class="metric-name">
              {heading(name)}: {title.toLowerCase()}
            </h3>
            {tried && <span class="muted">{counted(own.length, "alert")} of {signal === "" ? "all detectors" : section.name}</span>}
          </figcaption>
          <Chart
            label={`${heading(name)}, ${title.toLowerCase()}: ${counted(list.length, "incident")}`}
            height={230}
            lines={[{ x: series.x, y: series.y, colour: (theme) => theme.raw }]}
            axis="step"
            range={null}
            log={log}
            lanes={Math.max(...halves.map(([, each]) => inLanes(each).length))}
            under={[spans(inLanes(list))]}
            over={
              tried
                ? [
                    dots(
                      own.flatMap((alert) => {
                        const y = series.y[nearest(series.x, alert.step)];
                        return y === undefined ? [] : [{ x: alert.step, y, severity: alert.severity }];
                      }),
                      floor,
                    ),
                  ]
                : []
            }
            syncKey="what-if"
            compact
          />
        </figure>
      ))}
    </>
  );
}

function Incidents({ answer }: { answer: WhatIf }) {
  return (
    <Section title="Incidents there would have been">
      {answer.incidents.length === 0 && <p class="muted">None.</p>}
      <ul class="incidents">
        {answer.incidents.map((incident) => (
          <li key={incident.id}>
            <div class="incident-line">
              <Badge kind={incident.severity} />
              <strong>{subject(incident)}</strong>
              <span class="muted">
                {incident.ended === null ? `began at step ${count(incident.started)}` : `steps ${count(incident.started)} to ${count(incident.ended)}`}
                {incident.opened !== null && `, opened at ${count(incident.opened)}`} · {incident.detectors.join(", ")}
              </span>
            </div>
            <p>{incident.message}</p>
          </li>
        ))}
      </ul>
    </Section>
  );
}

function rest(signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, REST_MS);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(new DOMException("", "AbortError"));
    });
  });
}
