/** One metric of several runs in one chart. */
import { Chart, type AxisKind } from "../../charts/chart";
import { beginning, curve } from "../../charts/layers";
import { LINE_COLOURS } from "../../charts/theme";
import { heading } from "../../format/names";
import { logFloor } from "../../series/scale";
import { smoothed } from "../../series/smooth";
import type { ComparedRun } from "./curves";

interface OverlayProps {
  metric: string;
  runs: ComparedRun[];
  axis: AxisKind;
  range: [number, number] | null;
  log: boolean;
  smoothing: number;
  /** Draw a line where every run has its first incident. */
  atZero: boolean;
  large?: boolean;
  onEnlarge?: () => void;
  onZoom: (from: number, to: number) => void;
  onReset: () => void;
  onCursor?: (x: number | null) => void;
}

export function Overlay({ metric, runs, axis, range, log, smoothing, atZero, large = false, onEnlarge, ...events }: OverlayProps) {
  const drawn = runs.flatMap((run) => {
    const series = run.curves?.[metric];
    return series && series.x.length > 0 ? [{ run, series }] : [];
  });
  if (drawn.length === 0) return null;
  const floor = log ? logFloor(drawn.flatMap(({ series }) => series.y)) : 0;
  const colourOf = (run: ComparedRun) => (theme: { lines: string[] }) => theme.lines[run.colour % LINE_COLOURS] ?? "gray";
  const dashOf = (run: ComparedRun) => (run.colour >= LINE_COLOURS ? [6, 3] : undefined);
  return (
    <figure class={large ? "metric large" : "metric"} data-name={heading(metric)} data-metric={metric}>
      <figcaption>
        {onEnlarge ? (
          <button type="button" class="metric-name" onClick={onEnlarge} title="Show large">
            {heading(metric)}
          </button>
        ) : (
          <h2 class="metric-name">{heading(metric)}</h2>
        )}
      </figcaption>
      <Chart
        label={`${heading(metric)} of ${drawn.map(({ run }) => run.name).join(", ")}`}
        height={large ? 340 : 150}
        lines={drawn.map(({ run, series }) => ({
          x: series.x,
          y: series.y,
          colour: (theme) => (smoothing > 0 ? `${colourOf(run)(theme)}55` : colourOf(run)(theme)),
          dash: dashOf(run),
        }))}
        axis={axis}
        range={range}
        log={log}
        under={atZero ? [beginning(0, "")] : []}
        over={
          smoothing > 0
            ? drawn.map(({ run, series }) => {
                const smooth = smoothed(series, smoothing);
                return curve(smooth.x, smooth.y, colourOf(run), floor, dashOf(run) ?? [], 2);
              })
            : []
        }
        syncKey="compare"
        compact={!large}
        {...events}
      />
    </figure>
  );
}
