/** The chart of one metric, large or small, with a line that says what is under the cursor. */
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import type { Baseline, MetricInfo, Series } from "../../api/types";
import { Chart } from "../../charts/chart";
import { curve, inLanes } from "../../charts/layers";
import { heading } from "../../format/names";
import { count, number } from "../../format/number";
import { moment } from "../../format/time";
import { logFloor } from "../../series/scale";
import { smoothed } from "../../series/smooth";
import { nearest } from "../../series/tail";
import { incidentSpans, overlay, underlay, type Marked } from "./marks";
import { zoomTo, showAll } from "./state";

interface MetricChartProps {
  metric: MetricInfo;
  series: Series;
  marked: Marked;
  baseline?: Baseline | null;
  axis: "step" | "time";
  range: [number, number] | null;
  log: boolean;
  smoothing: number;
  large?: boolean;
  /** Makes this metric the large one. */
  onEnlarge?: () => void;
}

const LARGE = 340;
const SMALL = 150;

export function MetricChart(props: MetricChartProps) {
  const { metric, series, marked, baseline = null, axis, range, log, smoothing, large = false, onEnlarge } = props;
  const readout = useRef<HTMLSpanElement>(null);
  const floor = log ? logFloor(series.y) : 0;
  const smooth = useMemo(() => (smoothing > 0 ? smoothed(series, smoothing) : null), [series, smoothing]);
  const lanes = inLanes(incidentSpans(marked, metric, axis, large));
  const under = underlay(lanes, baseline, floor);
  const over = [
    ...(smooth ? [curve(smooth.x, smooth.y, (theme) => theme.smooth, floor, [], large ? 2.25 : 1.75)] : []),
    ...overlay(marked, metric, series, axis, floor, large),
  ];
  const latest = number(latestOf(metric, series, axis));
  const resting = `latest ${latest}`;
  const atCursor = (x: number | null) => {
    if (!readout.current) return;
    readout.current.textContent = x === null ? resting : reading(x, series, baseline, axis, large);
  };
  // The cursor writes here, too, many times a second: so it is not drawn with the rest.
  useLayoutEffect(() => atCursor(null), [resting]);
  const name = metric.meaning ? heading(metric.name) : metric.name;
  const missing = series.non_finite_count > 0 ? `, ${series.non_finite_count} values that are NaN or infinite` : "";
  return (
    <figure class={large ? "metric large" : "metric"} data-name={name} data-metric={metric.name}>
      <figcaption>
        {onEnlarge ? (
          <button type="button" class="metric-name" onClick={onEnlarge} title="Show large">
            {name}
          </button>
        ) : (
          <h2 class="metric-name">{name}</h2>
        )}
        {large && metric.meaning && <span class="muted meaning">{metric.meaning}</span>}
        <span class="readout" ref={readout} />
      </figcaption>
      <Chart
        label={`${name}: from ${number(metric.min)} to ${number(metric.max)}, latest ${latest}${missing}`}
        height={large ? LARGE : SMALL}
        // The raw curve is always there; a smooth one is drawn over it.
        lines={[{ x: series.x, y: series.y, colour: (theme) => (smooth ? `${theme.raw}66` : theme.raw), width: large ? 1.4 : 1.15 }]}
        axis={axis}
        range={range}
        log={log}
        alsoInView={baseline ? [maximum(baseline.critical, baseline.x, range), ...baseline.limits.map((one) => one.value)] : []}
        lanes={lanes.length}
        under={under}
        over={over}
        syncKey="run"
        compact={!large}
        onZoom={zoomTo}
        onReset={showAll}
        onCursor={atCursor}
      />
    </figure>
  );
}

/** What is at the cursor: the step, the value, and how the baseline stands there. */
function reading(x: number, series: Series, baseline: Baseline | null, axis: "step" | "time", large: boolean): string {
  const at = nearest(series.x, x);
  if (at < 0) return "";
  const where = series.x[at] as number;
  const parts = [axis === "time" ? moment(where, Date.now() / 1000) : `step ${count(where)}`, number(series.y[at], 4)];
  const b = baseline ? nearest(baseline.x, where) : -1;
  if (large && baseline && b >= 0) {
    parts.push(`baseline ${number(baseline.mean[b])} ± ${number(baseline.std[b], 2)}`);
    parts.push(`warning above ${number(baseline.warning[b])}, critical above ${number(baseline.critical[b])}`);
  }
  return parts.join(" · ");
}

/** The latest value: that of the curve, which grows while a run trains, where it is newer. */
function latestOf(metric: MetricInfo, series: Series, axis: "step" | "time"): MetricInfo["last"] {
  const at = series.x.length - 1;
  const x = series.x[at];
  const y = series.y[at];
  const known = axis === "step" ? metric.last_step : metric.last_time;
  const newer = x !== undefined && known !== null && x > known;
  return newer && y !== undefined ? y : metric.last;
}

function maximum(values: (number | null)[], x: number[], range: [number, number] | null): number {
  let greatest = -Infinity;
  values.forEach((value, at) => {
    const here = x[at] as number;
    if (value !== null && value > greatest && (!range || (here >= range[0] && here <= range[1]))) greatest = value;
  });
  return greatest;
}
