/** What is drawn in the charts of a run. */

/** A number, or "NaN", "Infinity", "-Infinity": JSON has no such numbers. */
export type Value = number | string;

export interface Series {
  x: number[];
  y: number[];
  raw: boolean;
  mean_x: number[];
  mean_y: number[];
  count: number;
  non_finite: { x: number; value: string }[];
  non_finite_count: number;
}

export interface SeriesAnswer {
  run: string;
  cursor: number;
  axis: string;
  from: number | null;
  to: number | null;
  series: Record<string, Series>;
}

export interface Limit {
  detector: string;
  severity: string;
  value: number;
}

export interface Baseline {
  detector: string;
  metric: string;
  axis: string;
  sigma_multiplier: number;
  baseline_mode: string;
  rolling_window: number;
  enabled: boolean;
  x: number[];
  mean: (number | null)[];
  std: (number | null)[];
  warning: (number | null)[];
  critical: (number | null)[];
  limits: Limit[];
}

export interface Checkpoint {
  step: number;
  time: number | null;
  path: string;
  counts: boolean;
  unsafe: boolean;
}

export interface Rollback {
  step: number;
  last: number;
  time: number | null;
}
