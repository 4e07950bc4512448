/** Live runs: new points replace the end of what is there. */
import type { Series } from "../api/types";

/** Put a tail, which begins at `from`, in the place of everything from there on. */
export function withTail(series: Series, tail: Series, from: number): Series {
  const keep = firstAtLeast(series.x, from);
  const keepMeans = firstAtLeast(series.mean_x, from);
  const nonFinite = [...series.non_finite.filter((point) => point.x < from), ...tail.non_finite];
  // Where the tail has all its values, they are means of themselves.
  const [tailX, tailY] = tail.raw ? [tail.x, tail.y] : [tail.mean_x, tail.mean_y];
  return {
    x: [...series.x.slice(0, keep), ...tail.x],
    y: [...series.y.slice(0, keep), ...tail.y],
    raw: series.raw && tail.raw,
    mean_x: series.raw && tail.raw ? [] : [...means(series).x.slice(0, series.raw ? keep : keepMeans), ...tailX],
    mean_y: series.raw && tail.raw ? [] : [...means(series).y.slice(0, series.raw ? keep : keepMeans), ...tailY],
    count: Math.max(series.count, keep + tail.count),
    non_finite: nonFinite,
    non_finite_count: Math.max(series.non_finite_count, nonFinite.length),
  };
}

/** The index of the first element that is not below `limit`, in a list that rises. */
export function firstAtLeast(rising: number[], limit: number): number {
  let low = 0;
  let high = rising.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((rising[middle] as number) < limit) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The index of the element nearest to `target`, in a list that rises; -1 if it is empty. */
export function nearest(rising: number[], target: number): number {
  const after = firstAtLeast(rising, target);
  if (after === 0) return rising.length ? 0 : -1;
  if (after === rising.length) return after - 1;
  return target - (rising[after - 1] as number) <= (rising[after] as number) - target ? after - 1 : after;
}

function means(series: Series): { x: number[]; y: number[] } {
  return series.raw ? { x: series.x, y: series.y } : { x: series.mean_x, y: series.mean_y };
}

/** How far apart the rows of a run are on the axis of steps: 10 if every tenth step is logged. Rounded, so that it hardly changes as the run grows. */
export function stepsPerRow(run: { steps: number; first_step: number | null; last_step: number | null }): number {
  const covered = (run.last_step ?? 0) - (run.first_step ?? 0);
  return run.steps > 1 && covered > 0 ? Number((covered / (run.steps - 1)).toPrecision(2)) : 1;
}
