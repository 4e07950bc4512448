/** The curves of several runs, each moved to its own zero. */
import { getSeries } from "../../api/client";
import type { Comparison, Series } from "../../api/types";
import { axisOf, offsetOf, type Alignment } from "../../series/align";

export interface ComparedRun {
  id: string;
  name: string;
  /** Which of the colours it has; it keeps it whatever else is shown. */
  colour: number;
  /** By metric; null where it cannot be aligned this way. */
  curves: Record<string, Series> | null;
}

interface Query {
  alignment: Alignment;
  zoom: [number, number] | null;
  width: number;
}

export async function loadCurves(comparison: Comparison, metrics: string[], query: Query, signal: AbortSignal): Promise<ComparedRun[]> {
  const { alignment, zoom, width } = query;
  return Promise.all(
    comparison.runs.map(async (run, colour) => {
      const offset = offsetOf(run, alignment);
      if (offset === null) return { id: run.id, name: run.name, colour, curves: null };
      const range = zoom ? { from: zoom[0] + offset, to: zoom[1] + offset } : {};
      const series = await getSeries(run.id, metrics, { axis: axisOf(alignment), width, ...range }, signal);
      const curves = Object.fromEntries(Object.entries(series).map(([name, its]) => [name, moved(its, offset)]));
      return { id: run.id, name: run.name, colour, curves };
    }),
  );
}

function moved(series: Series, offset: number): Series {
  if (offset === 0) return series;
  return {
    ...series,
    x: series.x.map((x) => x - offset),
    mean_x: series.mean_x.map((x) => x - offset),
    non_finite: series.non_finite.map((point) => ({ ...point, x: point.x - offset })),
  };
}
