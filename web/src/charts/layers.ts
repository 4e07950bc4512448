/** What is drawn around a curve: shading, bands, limits, marks. Each layer is a function of the chart. */
import type uPlot from "uplot";
import { severityColour, type Theme } from "./theme";

/** Draws in canvas pixels; the drawing is clipped to the plot and what is above it. */
export type Layer = (chart: uPlot, context: CanvasRenderingContext2D, theme: Theme) => void;

export interface Span {
  from: number;
  to: number | null;
  severity: string;
  label: string;
  /** Whether the whole height is shaded, or only a bar drawn at the top. */
  shaded: boolean;
  /** An incident that a rollback undid is drawn faintly. */
  faint?: boolean;
}

const MAX_LANES = 4;
export const LANE_HEIGHT = 16;

/** Spread spans over lanes, so that those at the same time lie below each other. */
export function inLanes(list: Span[]): Span[][] {
  const lanes: Span[][] = [];
  for (const span of [...list].sort((a, b) => a.from - b.from)) {
    const free = lanes.find((lane) => {
      const last = lane.at(-1);
      return last !== undefined && last.to !== null && last.to < span.from;
    });
    if (free) free.push(span);
    else if (lanes.length < MAX_LANES) lanes.push([span]);
    else lanes.at(-1)?.push(span);
  }
  return lanes;
}

/** Shade incidents, and draw their bars above the plot, one lane below the other. */
export function spans(lanes: Span[][]): Layer {
  return (chart, context, theme) => {
    const { left, top, width, height } = chart.bbox;
    const ratio = devicePixelRatio;
    context.font = scaledFont(theme, ratio);
    context.textAlign = "left";
    context.textBaseline = "top";
    lanes.forEach((lane, row) => {
      const y = top - (lanes.length - row) * LANE_HEIGHT * ratio;
      const placed = lane.flatMap((span) => {
        const start = Math.max(left, chart.valToPos(span.from, "x", true));
        const end = span.to === null ? left + width : Math.min(left + width, chart.valToPos(span.to, "x", true));
        return end < left || start > left + width ? [] : [{ span, start, wide: Math.max(end - start, 2 * ratio) }];
      });
      placed.forEach(({ span, start, wide }, at) => {
        context.fillStyle = severityColour(theme, span.severity);
        if (span.shaded) {
          context.globalAlpha = span.faint ? 0.05 : 0.12;
          context.fillRect(start, top, wide, height);
        }
        context.globalAlpha = span.faint ? 0.5 : 1;
        context.fillRect(start, y, wide, 3 * ratio);
        // A label that would run into the next is left out; one at the edge ends there.
        const long = context.measureText(span.label).width;
        const text = Math.max(left, Math.min(start, left + width - long));
        if (text + long < (placed[at + 1]?.start ?? Infinity)) context.fillText(span.label, text, y + 4 * ratio);
        context.globalAlpha = 1;
      });
    });
  };
}

/** Fill between two curves: the baseline's mean ± standard deviation. */
export function band(x: number[], low: (number | null)[], high: (number | null)[], floor: number): Layer {
  return (chart, context, theme) => {
    context.fillStyle = theme.band;
    for (const [start, end] of stretches(x, (at) => low[at] != null && high[at] != null)) {
      context.beginPath();
      for (let at = start; at < end; at += 1) context.lineTo(px(chart, x[at]), py(chart, high[at], floor));
      for (let at = end - 1; at >= start; at -= 1) context.lineTo(px(chart, x[at]), py(chart, low[at], floor));
      context.fill();
    }
  };
}

/** A dashed curve, such as the warning threshold. */
export function curve(x: number[], y: (number | null)[], colour: (theme: Theme) => string, floor: number, dash: number[], width = 1.25): Layer {
  return (chart, context, theme) => {
    context.strokeStyle = colour(theme);
    context.lineWidth = width * devicePixelRatio;
    context.lineJoin = "round";
    context.setLineDash(dash.map((length) => length * devicePixelRatio));
    for (const [start, end] of stretches(x, (at) => y[at] != null)) {
      context.beginPath();
      for (let at = start; at < end; at += 1) context.lineTo(px(chart, x[at]), py(chart, Math.max(y[at] as number, floor || -Infinity), floor));
      context.stroke();
    }
    context.setLineDash([]);
  };
}

/** A fixed limit, with its name at the left end, where curves are rarely high. */
export function limit(value: number, severity: string, label: string, floor: number): Layer {
  return (chart, context, theme) => {
    const { left, top, width, height } = chart.bbox;
    const ratio = devicePixelRatio;
    const y = py(chart, value, floor);
    if (y < top || y > top + height) return;
    context.strokeStyle = context.fillStyle = severityColour(theme, severity);
    context.globalAlpha = 0.75;
    context.lineWidth = ratio;
    context.setLineDash([2 * ratio, 3 * ratio]);
    context.beginPath();
    context.moveTo(left, y);
    context.lineTo(left + width, y);
    context.stroke();
    context.setLineDash([]);
    context.globalAlpha = 1;
    context.font = scaledFont(theme, ratio);
    context.textAlign = "left";
    context.textBaseline = "bottom";
    context.fillText(label, left + 4 * ratio, y - 2 * ratio);
  };
}

export interface Dot {
  x: number;
  y: number;
  severity: string;
}

/** Dots on the curve, one for each alert; of those that share a pixel, the worst. */
export function dots(list: Dot[], floor: number): Layer {
  return (chart, context, theme) => {
    const shown = new Map<number, Dot>();
    for (const dot of list) {
      const pixel = Math.round(px(chart, dot.x) / 3);
      const other = shown.get(pixel);
      if (!other || (other.severity !== "critical" && dot.severity === "critical")) shown.set(pixel, dot);
    }
    const radius = 2.75 * devicePixelRatio;
    for (const dot of shown.values()) {
      context.fillStyle = severityColour(theme, dot.severity);
      context.strokeStyle = theme.surface;
      context.lineWidth = devicePixelRatio;
      context.beginPath();
      context.arc(px(chart, dot.x), py(chart, dot.y, floor), radius, 0, 2 * Math.PI);
      context.fill();
      context.stroke();
    }
  };
}

/** Red ticks at the bottom, one for each value that is NaN or infinite. */
export function ticks(list: number[]): Layer {
  return (chart, context, theme) => {
    const { top, height } = chart.bbox;
    const ratio = devicePixelRatio;
    context.fillStyle = theme.critical;
    let last = -Infinity;
    for (const x of list) {
      const at = Math.round(px(chart, x));
      if (at - last < 2 * ratio) continue;
      context.fillRect(at - ratio, top + height - 14 * ratio, 2 * ratio, 14 * ratio);
      last = at;
    }
  };
}

export interface Flag {
  x: number;
  good: boolean;
}

/** Triangles on the axis, one for each checkpoint; hollow if it is not to be trusted. */
export function flags(list: Flag[]): Layer {
  return (chart, context, theme) => {
    const { top, height } = chart.bbox;
    const size = 5 * devicePixelRatio;
    context.fillStyle = context.strokeStyle = theme.checkpoint;
    context.lineWidth = devicePixelRatio;
    for (const flag of list) {
      const at = px(chart, flag.x);
      context.beginPath();
      context.moveTo(at, top + height - 1.7 * size);
      context.lineTo(at + size, top + height - 1);
      context.lineTo(at - size, top + height - 1);
      context.closePath();
      if (flag.good) context.fill();
      else context.stroke();
    }
  };
}

/** Vertical lines where training went back. */
export const returns = (list: number[]): Layer => verticals(list, "↺", (theme) => theme.rollback);

/** A vertical line where something begins, with a word for it. */
export const beginning = (x: number, mark: string): Layer => verticals([x], mark, (theme) => theme.muted);

function verticals(list: number[], mark: string, colour: (theme: Theme) => string): Layer {
  return (chart, context, theme) => {
    const { top, height } = chart.bbox;
    const ratio = devicePixelRatio;
    context.strokeStyle = context.fillStyle = colour(theme);
    context.lineWidth = 1.25 * ratio;
    for (const x of list) {
      const at = px(chart, x);
      context.setLineDash([5 * ratio, 3 * ratio]);
      context.beginPath();
      context.moveTo(at, top);
      context.lineTo(at, top + height);
      context.stroke();
      context.setLineDash([]);
      context.font = scaledFont(theme, ratio);
      context.textAlign = "left";
      context.textBaseline = "bottom";
      context.fillText(mark, at + 3 * ratio, top + height - 10 * ratio);
    }
  };
}

const px = (chart: uPlot, x: number | undefined) => chart.valToPos(x as number, "x", true);

/** `floor` is the least value that a logarithmic axis shows; 0 where the axis is linear. */
const py = (chart: uPlot, y: number | null | undefined, floor: number) =>
  chart.valToPos(floor > 0 ? Math.max(y as number, floor / 10) : (y as number), "y", true);

const scaledFont = (theme: Theme, ratio: number) => theme.font.replace(/^[\d.]+/, String(11 * ratio));

/** The stretches of indices for which something holds. */
function stretches(x: number[], holds: (at: number) => boolean): [number, number][] {
  const found: [number, number][] = [];
  let start = -1;
  for (let at = 0; at <= x.length; at += 1) {
    const here = at < x.length && holds(at);
    if (here && start < 0) start = at;
    if (!here && start >= 0) {
      found.push([start, at]);
      start = -1;
    }
  }
  return found;
}
