/** Smoothing: an exponential moving average without the bias towards its first values. */
import type { Series } from "../api/types";

export interface Points {
  x: number[];
  y: number[];
}

/** Smooth a series; `strength` is 0 (not at all) to just under 1. Means are used where values were left out. */
export function smoothed(series: Series, strength: number): Points {
  const [x, y] = series.raw || series.mean_x.length === 0 ? [series.x, series.y] : [series.mean_x, series.mean_y];
  return { x, y: movingAverage(y, strength) };
}

export function movingAverage(values: number[], strength: number): number[] {
  const averages: number[] = [];
  let sum = 0;
  let weight = 0;
  for (const value of values) {
    sum = sum * strength + value;
    weight = weight * strength + 1;
    averages.push(sum / weight);
  }
  return averages;
}
