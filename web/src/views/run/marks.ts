/** Which marks a metric's chart has: its incidents, alerts, NaN, checkpoints and rollbacks. */
import type { Alert, Baseline, Checkpoint, Incident, MetricInfo, Rollback, Series } from "../../api/types";
import { band, curve, dots, flags, limit, returns, spans, ticks, type Dot, type Layer, type Span } from "../../charts/layers";
import { subject } from "../../format/names";
import { finite } from "../../format/number";
import { nearest } from "../../series/tail";

type Axis = "step" | "time";

export interface Marked {
  /** The metrics of the run. */
  metrics: MetricInfo[];
  incidents: Incident[];
  alerts: Alert[];
  checkpoints: Checkpoint[];
  rollbacks: Rollback[];
}

const place = (axis: Axis, step: number | null, time: number | null | undefined) => (axis === "time" ? (time ?? null) : step);

/** Whether an alert is about a metric: it names it, or names none of the run's and is on its signal. */
function isAbout(alert: Alert, metric: MetricInfo, all: MetricInfo[]): boolean {
  const numbers = alert.metrics ?? {};
  if (Object.hasOwn(numbers, metric.name)) return true;
  return metric.signal !== "" && metric.signal === alert.signal && !all.some(({ name }) => Object.hasOwn(numbers, name));
}

/** The incidents that a metric is part of; on a large chart, the others as well, as bars. */
export function incidentSpans(marked: Marked, metric: MetricInfo, axis: Axis, large: boolean): Span[] {
  const about = marked.alerts.filter((alert) => isAbout(alert, metric, marked.metrics));
  return marked.incidents.flatMap((incident) => {
    const from = place(axis, incident.started, incident.started_time);
    // When steps were logged that a rollback undid, nobody knows.
    if (from === null || (axis === "time" && incident.reason === "rolled_back")) return [];
    const end = incident.ended ?? Infinity;
    const own =
      incident.metric === metric.name ||
      (incident.signal === metric.signal && about.some(({ step }) => step >= incident.started && step <= end));
    if (!own && !large) return [];
    const to = incident.ended === null ? null : place(axis, incident.ended, incident.ended_time);
    const label = large ? `${incident.number} ${subject(incident)}` : `${incident.number}`;
    return [{ from, to, severity: incident.severity, label, shaded: own, faint: incident.reason === "rolled_back" }];
  });
}

export function alertDots(marked: Marked, metric: MetricInfo, series: Series, axis: Axis): Dot[] {
  return marked.alerts.flatMap((alert) => {
    if (alert.rolled_back || !isAbout(alert, metric, marked.metrics)) return [];
    const x = place(axis, alert.step, alert.time);
    if (x === null) return [];
    const y = finite(alert.metrics?.[metric.name]) ?? series.y[nearest(series.x, x)];
    return y === undefined ? [] : [{ x, y, severity: alert.severity }];
  });
}

/** What is drawn below the curve. */
export function underlay(lanes: Span[][], baseline: Baseline | null, floor: number): Layer[] {
  const layers = [spans(lanes)];
  if (!baseline) return layers;
  const { x, mean, std, warning, critical, limits } = baseline;
  const edge = (sign: number) => mean.map((middle, at) => (middle === null || std[at] == null ? null : middle + sign * std[at]));
  return [
    ...layers,
    band(x, edge(-1), edge(1), floor),
    curve(x, warning, (theme) => theme.warning, floor, [5, 4]),
    curve(x, critical, (theme) => theme.critical, floor, [5, 4]),
    ...limits.map(({ value, severity, detector }) => limit(value, severity, `${detector} ${severity}`, floor)),
  ];
}

/** What is drawn above the curve. */
export function overlay(marked: Marked, metric: MetricInfo, series: Series, axis: Axis, floor: number, large: boolean): Layer[] {
  const layers = [ticks(series.non_finite.map((point) => point.x)), dots(alertDots(marked, metric, series, axis), floor)];
  if (!large) return layers;
  return [
    ...layers,
    flags(
      marked.checkpoints.flatMap(({ step, time, counts, unsafe }) => {
        const x = place(axis, step, time);
        return x === null ? [] : [{ x, good: counts && !unsafe }];
      }),
    ),
    returns(
      marked.rollbacks.flatMap(({ step, time }) => {
        const x = place(axis, step, time);
        return x === null ? [] : [x];
      }),
    ),
  ];
}
