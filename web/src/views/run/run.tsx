/** One run: what is wrong with it, its curves, its incidents, its settings. */
import { useEffect, useMemo, useRef } from "preact/hooks";
import { overviewAddress, runAddress, whatIfAddress } from "../../address";
import { endSilence, getBaseline, getRunNames } from "../../api/client";
import { asApiError, useChanges, useLoaded, useThrottled } from "../../api/hooks";
import type { Baseline, Incident, MetricInfo, Run, Silence } from "../../api/types";
import { activityText, healthText, shown } from "../../format/names";
import { count } from "../../format/number";
import { useKeys } from "../../keyboard";
import { Ago } from "../../parts/ago";
import { Badge } from "../../parts/badge";
import { Crumbs } from "../../parts/frame";
import { Empty, Failure, Loading } from "../../parts/notice";
import { toast } from "../../parts/toast";
import { go, setQuery } from "../../router";
import { stepsPerRow } from "../../series/tail";
import { listed } from "../overview/order";
import { IncidentList, isUndone } from "./incident_list";
import { Legend } from "./legend";
import { MetricChart } from "./metric_chart";
import { useRecord, type RunRecord } from "./record";
import { rangeOf, useCurves, type Curves, type LoadedCurves } from "./series";
import { Settings } from "./settings";
import { setSmoothing, showAll, stateIn, USUAL_SMOOTHING, zoomTo, type RunState } from "./state";
import { Toolbar } from "./toolbar";
import { Trouble } from "./trouble";

// Detectors that have a baseline, by the metric that they measure.
const BASELINES: Record<string, string> = {
  kl: "kl_explosion",
  kl_probe: "kl_probe_explosion",
  grad_norm: "gradient_norm_spike",
};
const BASELINE_MS = 1000;

export function RunView({ id, query }: { id: string; query: URLSearchParams }) {
  const record = useRecord(id);
  const { run, error, reload } = record;
  const state = stateIn(query);
  // The curve that one came for is asked for at once, before it is known which metrics there are.
  const large = run ? (run.metrics.find((metric) => metric.name === state.metric) ?? run.metrics[0])?.name : (state.metric ?? "kl");
  const width = run && state.last !== null ? state.last * stepsPerRow(run) : 1;
  const since = state.last !== null && run?.last_step != null ? run.last_step - width : undefined;
  const asked: Asked = {
    axis: state.axis,
    // A window that follows is moved only now and then, so that following stays cheap.
    from: state.zoom?.[0] ?? (since === undefined ? undefined : coarse(since, width)),
    to: state.zoom?.[1],
    width: useMemo(() => Math.min(1300, innerWidth), []),
  };
  const largeCurve = useCurves({ run: id, metrics: large === undefined ? [] : [large], ...asked });
  useEffect(() => {
    if (run) document.title = `${run.health === "ok" ? "" : `${healthText(run.health)}: `}${run.name} – klarm`;
  }, [run?.name, run?.health]);
  if (error && (!run || error.code === "not_found")) return <Failure error={error} retry={reload} />;
  if (!run) return <Loading />;
  return <Loaded run={run} record={record} state={state} since={since} asked={asked} largeCurve={largeCurve} />;
}

interface Asked {
  axis: "step" | "time";
  from: number | undefined;
  to: number | undefined;
  width: number;
}

interface LoadedProps {
  run: Run;
  record: RunRecord;
  state: RunState;
  /** The first step in view, where only the latest are shown. */
  since: number | undefined;
  asked: Asked;
  largeCurve: LoadedCurves | null;
}

function Loaded({ run, record, state, since, asked, largeCurve }: LoadedProps) {
  const { axis, zoom, smoothing } = state;
  const charts = useRef<HTMLDivElement>(null);
  const large = run.metrics.find((metric) => metric.name === state.metric) ?? run.metrics[0];
  const log = state.log ?? isLogByDefault(large);
  const others = run.metrics.filter((metric) => metric !== large).map((metric) => metric.name);
  const small = useCurves({ run: run.id, metrics: others, ...asked, width: Math.ceil(asked.width / 3) });
  const detector = large && Object.hasOwn(BASELINES, large.name) ? BASELINES[large.name] : undefined;
  const baseline = useLoaded(
    detector ? (signal) => getBaseline(run.id, asked, detector, signal) : null,
    [run.id, detector, axis, asked.from, asked.to],
  );
  const readBaseline = useThrottled(baseline.reload, BASELINE_MS);
  useChanges(run.id, () => !zoom && readBaseline(), baseline.reload);

  // Until the curves are there for an axis that was just chosen, the ones before stay.
  const drawn = useRef<Drawn>({ axis, curves: {}, range: null });
  if (largeCurve?.axis === axis) {
    const curves = { ...(small?.axis === axis && small.curves), ...largeCurve.curves };
    const whole = rangeOf(curves);
    drawn.current = { axis, curves, range: zoom ?? (since !== undefined && whole ? [Math.max(since, whole[0]), whole[1]] : whole) };
  }
  const shownAxis = drawn.current.axis;
  const marked = { ...record, metrics: run.metrics };

  const show = (incident: Incident) => {
    const from = axis === "time" ? incident.started_time : incident.started;
    const to = axis === "time" ? (incident.ended_time ?? run.last_seen) : (incident.ended ?? run.last_step);
    if (from === null || to === null) return;
    const air = Math.max((to - from) * 0.4, axis === "time" ? 60 : 20);
    // After the end of the run there is nothing to see; its last point should not be cut off.
    zoomTo(from - air, incident.ended === null ? to + air / 20 : to + air);
    charts.current?.scrollIntoView({ block: "start" });
  };
  const another = async (by: number) => {
    const order = listed((await getRunNames()).runs, "", "worst");
    const next = order[order.findIndex((one) => one.id === run.id) + by];
    if (next) go(runAddress(next.id));
  };
  useKeys({
    l: () => setQuery({ log: log ? "0" : "1" }),
    s: () => setSmoothing(smoothing > 0 ? 0 : USUAL_SMOOTHING),
    "0": showAll,
    e: () => nextIncident(record.incidents, axis === "step" ? zoom : null, show),
    j: () => void another(1),
    k: () => void another(-1),
    "/": () => go(overviewAddress()),
  });

  return (
    <div class="run">
      <Crumbs path={[{ text: "All runs", address: overviewAddress() }, { text: run.name }]} />
      <Head run={run} />
      <Trouble run={run.id} incidents={record.incidents} />
      <Remarks run={run} />
      {!large ? (
        <Empty>
          <p>{run.health === "unreadable" ? "Nothing in the journal of this run can be read." : "This run has not logged a value yet."}</p>
        </Empty>
      ) : (
        <>
          <Toolbar run={run} state={state} log={log} charts={() => charts.current} />
          <div ref={charts} class="charts">
            <div class="card">
              {drawn.current.curves[large.name] && (
                <MetricChart
                  large
                  metric={large}
                  series={drawn.current.curves[large.name]!}
                  marked={marked}
                  baseline={isBaselineOf(baseline.data, large, shownAxis) ? baseline.data : null}
                  axis={shownAxis}
                  range={drawn.current.range}
                  log={log}
                  smoothing={smoothing}
                />
              )}
              <Legend baseline={detector ? baseline.data : null} record={record} />
            </div>
            <div class="small-charts">
              {run.metrics.map((metric) => {
                const series = drawn.current.curves[metric.name];
                return metric === large || !series ? null : (
                  <div class="card" key={metric.name}>
                    <MetricChart
                      metric={metric}
                      series={series}
                      marked={marked}
                      axis={shownAxis}
                      range={drawn.current.range}
                      log={isLogByDefault(metric) && log}
                      smoothing={smoothing}
                      onEnlarge={() => setQuery({ metric: metric.name })}
                    />
                  </div>
                );
              })}
            </div>
          </div>
        </>
      )}
      <div class="two-columns">
        <IncidentList run={run.id} isWatched={!run.not_watched} hasSteps={run.steps > 0} incidents={record.incidents} blips={record.blips} onShow={show} />
        <Settings run={run.id} />
      </div>
    </div>
  );
}

interface Drawn {
  axis: "step" | "time";
  curves: Curves;
  range: [number, number] | null;
}

/** An answer may still be about the metric or the axis before. */
function isBaselineOf(baseline: Baseline | null, metric: MetricInfo, axis: string): boolean {
  return baseline !== null && baseline.enabled && baseline.metric === metric.name && baseline.axis === axis;
}

function Head({ run }: { run: Run }) {
  return (
    <div class="run-title">
      <h1>{run.name}</h1>
      <Badge kind={run.health} />
      <span class="muted">
        {[activityText(run.activity), `step ${count(run.last_step)}`, run.framework, run.host].filter(Boolean).join(" · ")} · last seen{" "}
        <Ago time={run.last_seen} />
      </span>
      <span class="grow" />
      <a class="button small" href={whatIfAddress(run.id)}>
        What if …
      </a>
    </div>
  );
}

/** That nothing is watched, silences, and what the server has to say about the journal. */
function Remarks({ run }: { run: Run }) {
  if (!run.not_watched && run.silences.length + run.notices.length === 0) return null;
  return (
    <ul class="remarks">
      {run.not_watched && <li>{run.not_watched}</li>}
      {run.silences.map((one) => (
        <li key={one.signal}>
          {one.text || `${shown(one.signal)} is silenced`}
          <button type="button" class="button small" onClick={() => void unsilence(run.id, one)}>
            End this silence
          </button>
        </li>
      ))}
      {run.notices.map((text) => (
        <li key={text}>{text}</li>
      ))}
    </ul>
  );
}

async function unsilence(run: string, { signal }: Silence): Promise<void> {
  try {
    toast((await endSilence(run, signal)).text);
  } catch (error) {
    toast(asApiError(error).message, true);
  }
}

/** KL spans orders of magnitude, unless it is an estimate that goes below zero. */
function isLogByDefault(metric: MetricInfo | undefined): boolean {
  return metric !== undefined && metric.signal === "kl" && !(typeof metric.min === "number" && metric.min < 0);
}

/** Show the incident after the one in view; after the last, the first. */
function nextIncident(incidents: Incident[], zoom: [number, number] | null, show: (incident: Incident) => void): void {
  const ordered = incidents.filter((one) => !isUndone(one)).sort((a, b) => a.started - b.started);
  const inView = ordered.findIndex((one) => zoom && one.started >= zoom[0] && one.started <= zoom[1]);
  const next = ordered[(inView + 1) % Math.max(1, ordered.length)];
  if (next) show(next);
}

const coarse = (step: number, size: number) => Math.floor(step / size) * size;
