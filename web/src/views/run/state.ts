/** What a run's address says about its charts. */
import { numberIn } from "../../address";
import { setQuery } from "../../router";

export interface RunState {
  axis: "step" | "time";
  /** The range somebody zoomed to, on the axis. */
  zoom: [number, number] | null;
  /** Show only this many of the latest rows, and go on following. */
  last: number | null;
  /** Undefined: as is usual for the metric. */
  log: boolean | undefined;
  smoothing: number;
  /** The metric that is drawn large. */
  metric: string | null;
}

export const USUAL_SMOOTHING = 0.9;

export function stateIn(query: URLSearchParams): RunState {
  const from = numberIn(query, "from");
  const to = numberIn(query, "to");
  const last = numberIn(query, "last");
  const log = query.get("log");
  const smoothing = numberIn(query, "smooth") ?? 0;
  return {
    axis: query.get("axis") === "time" ? "time" : "step",
    zoom: from !== undefined && to !== undefined && from < to ? [from, to] : null,
    last: last !== undefined && last >= 1 ? Math.round(last) : null,
    log: log === null ? undefined : log === "1",
    smoothing: Math.min(0.99, Math.max(0, smoothing)),
    metric: query.get("metric"),
  };
}

export const zoomTo = (from: number, to: number) =>
  setQuery({ from: short(from), to: short(to), last: null }, true);

export const showAll = () => setQuery({ from: null, to: null, last: null }, true);

export const showLast = (rows: number) => setQuery({ from: null, to: null, last: String(rows), axis: null }, true);

// A range on the one axis means nothing on the other.
export const setAxis = (axis: "step" | "time") =>
  setQuery({ axis: axis === "time" ? "time" : null, from: null, to: null, last: null });

export const setSmoothing = (strength: number) => setQuery({ smooth: strength > 0 ? String(strength) : null });

const short = (value: number) => String(Number(value.toPrecision(13)));
