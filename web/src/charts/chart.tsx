/** A chart: uPlot in a Preact component. Zooming and the cursor are reported, never decided here. */
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { number } from "../format/number";
import { clockLabels } from "../format/time";
import { decades, extent, lifted, logFloor, padded } from "../series/scale";
import { LANE_HEIGHT, type Layer } from "./layers";
import { zoomByTouch } from "./touch";
import { useTheme, type Theme } from "./theme";

export type AxisKind = "step" | "time" | "seconds";

export interface Line {
  x: number[];
  y: (number | null)[];
  colour: (theme: Theme) => string;
  width?: number;
  dash?: number[] | undefined;
}

export interface ChartProps {
  /** What a screen reader says in place of the picture. */
  label: string;
  height: number;
  lines: Line[];
  axis: AxisKind;
  /** The range that is shown; null where there is nothing to show yet. */
  range: [number, number] | null;
  log?: boolean;
  /** Further values that should be in view if that does not flatten the curve. */
  alsoInView?: number[];
  /** How many lanes of bars are drawn above the plot. */
  lanes?: number;
  under?: Layer[];
  over?: Layer[];
  /** Charts with the same key share their cursor. */
  syncKey?: string;
  compact?: boolean;
  onZoom?: (from: number, to: number) => void;
  onReset?: () => void;
  onCursor?: (x: number | null) => void;
}

// A drag that is shorter than this was a click.
const MIN_DRAG = 6;

export function Chart(props: ChartProps) {
  const place = useRef<HTMLDivElement>(null);
  const chart = useRef<uPlot | null>(null);
  const latest = useRef(props);
  latest.current = props;
  const theme = useTheme();
  const { log = false, axis, syncKey, compact = false } = props;

  // What uPlot cannot change later makes a new chart.
  const shape = [log, axis, syncKey, compact, props.lines.length, props.lanes].map(String).join();
  useLayoutEffect(() => {
    const element = place.current;
    if (!element) return;
    const made = new uPlot(optionsFor(latest, theme, element.clientWidth || 300), dataOf(latest.current), element);
    chart.current = made;
    const resize = new ResizeObserver(() => {
      const { height } = latest.current;
      if (element.clientWidth > 0) made.setSize({ width: element.clientWidth, height });
    });
    resize.observe(element);
    return () => {
      resize.disconnect();
      made.destroy();
      chart.current = null;
    };
  }, [shape, theme]);

  useEffect(() => {
    const made = chart.current;
    if (!made) return;
    if (made.height !== props.height) made.setSize({ width: made.width, height: props.height });
    made.setData(dataOf(props), true);
  });

  return <div class="chart" role="img" aria-label={props.label} ref={place} />;
}

function dataOf({ lines, log = false }: ChartProps): uPlot.AlignedData {
  const floor = log ? logFloor(lines.flatMap((line) => line.y)) : null;
  const shown = lines.map((line) => ({ x: line.x, y: floor === null ? line.y : lifted(line.y, floor) }));
  if (shown.length === 1 && shown[0]) return [shown[0].x, shown[0].y];
  return uPlot.join(shown.map(({ x, y }) => [x, y] as uPlot.AlignedData));
}

function optionsFor(latest: { current: ChartProps }, theme: Theme, width: number): uPlot.Options {
  const { log = false, axis, height, compact = false, syncKey, lines } = latest.current;
  const paint = (pick: (props: ChartProps) => Layer[] | undefined) => (made: uPlot) => {
    const context = made.ctx;
    context.save();
    context.beginPath();
    context.rect(made.bbox.left, 0, made.bbox.width, made.bbox.top + made.bbox.height);
    context.clip();
    for (const layer of pick(latest.current) ?? []) layer(made, context, theme);
    context.restore();
  };
  return {
    width,
    height,
    padding: [() => 8 + (latest.current.lanes ?? 0) * LANE_HEIGHT, 12, 0, 0],
    legend: { show: false },
    scales: {
      x: { time: axis === "time", range: () => rangeOfX(latest.current) },
      y: { distr: log ? 3 : 1, range: () => rangeOfY(latest.current, log) },
    },
    axes: [
      {
        stroke: theme.muted, font: theme.font, grid: { stroke: theme.grid, width: 1 }, ticks: { show: false },
        size: axis === "time" ? 42 : 26, gap: 4, space: compact ? 70 : 90,
        values: (_: uPlot, marks: number[]) => (axis === "time" ? clockLabels(marks) : marks.map(axis === "seconds" ? elapsed : plain)),
      },
      {
        stroke: theme.muted, font: theme.font, ticks: { show: false },
        grid: { stroke: theme.grid, width: 1, ...(log && { filter: (_: uPlot, marks: number[]) => marks.map(wholeDecade) }) },
        size: 58, gap: 4, space: compact ? 26 : 32,
        values: (_: uPlot, marks: (number | null)[]) => marks.map((mark) => (mark === null ? "" : number(mark))),
      },
    ],
    series: [
      {},
      ...lines.map((line) => ({
        stroke: line.colour(theme), width: line.width ?? 1.25, points: { show: line.x.length < 3 }, spanGaps: true,
        ...(line.dash && { dash: line.dash }),
      })),
    ],
    cursor: {
      y: false,
      points: { show: false },
      drag: { x: true, y: false, setScale: false, dist: MIN_DRAG },
      ...(syncKey !== undefined && { sync: { key: syncKey, setSeries: false, scales: ["x", null] as [string, null] } }),
      bind: { dblclick: () => () => (latest.current.onReset?.(), null) },
    },
    hooks: {
      ready: [(made) => latest.current.onZoom && zoomByTouch(made, MIN_DRAG, (from, to) => latest.current.onZoom?.(from, to))],
      drawAxes: [paint((props) => props.under)],
      draw: [paint((props) => props.over)],
      setSelect: [
        (made) => {
          const { left, width: wide } = made.select;
          if (wide < MIN_DRAG) return;
          const from = made.posToVal(left, "x");
          const to = made.posToVal(left + wide, "x");
          made.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          latest.current.onZoom?.(from, to);
        },
      ],
      setCursor: [
        (made) => {
          const left = made.cursor.left ?? -1;
          latest.current.onCursor?.(left < 0 ? null : made.posToVal(left, "x"));
        },
      ],
    },
  };
}

function rangeOfX({ range, lines }: ChartProps): [number, number] {
  if (range && range[0] < range[1]) return range;
  if (range) return [range[0] - 1, range[1] + 1];
  const all = extent(lines.flatMap((line) => [line.x[0] ?? null, line.x.at(-1) ?? null]));
  return all && all[0] < all[1] ? all : [0, 1];
}

/**
 * The range of what is in view: a zoomed chart uses its whole height.
 *
 * `log` is what the chart was made with: while it is replaced by one of the other kind, the
 * properties are ahead of it, and a logarithmic axis that is given zero never ends.
 */
function rangeOfY({ lines, range, alsoInView = [] }: ChartProps, log: boolean): [number, number] {
  const inView: (number | null)[] = [];
  for (const line of lines) {
    line.y.forEach((y, at) => {
      const x = line.x[at] as number;
      if (!range || (x >= range[0] && x <= range[1])) inView.push(y);
    });
  }
  const seen = extent(inView);
  if (!seen) return log ? [1e-3, 1] : [0, 1];
  let [least, greatest] = seen;
  if (log) {
    const floor = logFloor(inView);
    greatest = Math.max(greatest, floor);
    for (const value of alsoInView) if (value > greatest && value < greatest * 30) greatest = value;
    return decades(floor, greatest);
  }
  const size = greatest - least || Math.abs(greatest) || 1;
  for (const value of alsoInView) if (value > greatest && value < greatest + size) greatest = value;
  return padded(least, greatest);
}

/** The lines between decades would fill a small chart. */
const wholeDecade = (mark: number) => (Math.abs(Math.log10(mark) - Math.round(Math.log10(mark))) < 1e-6 ? mark : null);

const plain = (mark: number) => (Math.abs(mark) >= 10000 ? `${number(mark / 1000, 6)}k` : number(mark, 6));

function elapsed(seconds: number): string {
  const size = Math.abs(seconds);
  if (size >= 86400) return `${number(seconds / 86400)} d`;
  if (size >= 3600) return `${number(seconds / 3600)} h`;
  return size >= 60 ? `${number(seconds / 60)} min` : `${number(seconds)} s`;
}
