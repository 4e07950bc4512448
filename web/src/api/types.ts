/** What the server answers, as docs/api.md describes it. Fields that the page does not use are left out. */

/** A number, or "NaN", "Infinity", "-Infinity": JSON has no such numbers. */
export type Value = number | string;

export interface IncidentCounts {
  total: number;
  open: number;
  critical: number;
  warning: number;
}

export interface WorstIncident {
  id: string;
  number: number;
  signal: string;
  severity: string;
  state: string;
  started: number;
  title: string;
  message: string;
}

export interface RunSummary {
  id: string;
  name: string;
  folder: string;
  health: string;
  activity: string;
  worst: WorstIncident | null;
  incidents: IncidentCounts;
  steps: number;
  first_step: number | null;
  last_step: number | null;
  rolled_back: number;
  started: number | null;
  last_seen: number | null;
  framework: string | null;
  host: string | null;
  klarm: string | null;
  damaged_lines: number;
  latest: Record<string, Value>;
  sparklines?: Record<string, (number | null)[]>;
}

export interface Overview {
  cursor: number;
  folder: string;
  indexing: { done: number; total: number } | null;
  runs: RunSummary[];
}

export interface MetricInfo {
  name: string;
  meaning: string;
  key: string;
  signal: string;
  count: number;
  first_step: number | null;
  last_step: number | null;
  min: Value | null;
  max: Value | null;
  last: Value | null;
  last_time: number | null;
  non_finite: number;
}

export interface Silence {
  signal: string;
  by: string;
  until_step: number | null;
  until_time: number | null;
  even_critical: boolean;
  text: string;
}

export interface RunProcess {
  started: number | null;
  klarm: string | null;
  host: string | null;
  framework: string | null;
  step: number | null;
}

export interface Run extends RunSummary {
  cursor: number;
  metrics: MetricInfo[];
  processes: RunProcess[];
  silences: Silence[];
  notices: string[];
}

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

export interface Alert {
  detector: string;
  signal: string;
  severity: string;
  step: number;
  time?: number | null;
  message: string;
  recommendation?: string;
  metrics?: Record<string, Value>;
  rolled_back?: boolean;
}

export interface Alerts {
  total: number;
  truncated: boolean;
  alerts: Alert[];
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

export interface Config {
  settings: Record<string, unknown>;
  changed: { setting: string; value: unknown; default: unknown }[];
}

export interface PendingCommand {
  command: string;
  by: string;
  time: number;
}

export interface Incident {
  id: string;
  number: number;
  signal: string;
  metric: string;
  severity: string;
  state: string;
  state_text: string;
  is_open: boolean;
  reason: string;
  title: string;
  headline: string;
  /** What its worst alert says, whatever became of it since. */
  message: string;
  why: string;
  started: number;
  started_time: number | null;
  onset: number | null;
  opened: number | null;
  opened_time: number | null;
  ended: number | null;
  ended_time: number | null;
  last_step: number;
  detectors: string[];
  peak: Value | null;
  worse: string;
  level: Value | null;
  before: Value | null;
  follows: string;
  by: string;
  acknowledged_by: string[];
  silenced: boolean;
  false_alarm: { by: string; time: number; note: string } | null;
  commands_pending: PendingCommand[];
}

export interface Blip {
  signal: string;
  severity: string;
  started: number;
  step: number;
  detectors: string[];
  peak: Value;
  rolled_back: boolean;
}

export interface Incidents {
  incidents: Incident[];
  blips: Blip[];
}

export interface TimelineEntry {
  event: string;
  step: number | null;
  time: number | null;
  severity: string;
  reason: string;
  text: string;
  message: string;
  detector: string;
}

export interface Arithmetic {
  detector: string;
  severity: string;
  step: number;
  metric: string;
  value: Value | null;
  mean: Value | null;
  std: Value | null;
  z: Value | null;
  threshold: Value | null;
  warning_at: Value | null;
  critical_at: Value | null;
  formula: string | null;
  numbers: Record<string, Value>;
}

export interface Delivery {
  channel: string;
  event: string;
  step: number | null;
  time: number;
  outcome: string;
  outcome_text: string;
  attempts: number;
  reason: string;
}

export interface IncidentDetail extends Incident {
  run: { id: string; name: string; activity: string; last_step: number | null };
  timeline: TimelineEntry[];
  arithmetic: Arithmetic | null;
  alerts: { total: number; by_detector: Record<string, number> };
  moved: { event: string; step: number; text: string; metrics: string[]; from: number | null; to: number | null } | null;
  diagnosis: { pattern: string; cause: string; remedy: string; page: string } | null;
  advice: string[];
  checkpoint: { step: number | null; path: string } | null;
  deliveries: Delivery[];
}

export interface Comparison {
  runs: {
    id: string;
    name: string;
    first_step: number | null;
    started: number | null;
    incident: { id: string; step: number; time: number | null } | null;
  }[];
  metrics: string[];
  differences: { setting: string; default: unknown; values: Record<string, unknown> }[];
  same: number;
}

export interface Setting {
  name: string;
  kind: string;
  default: unknown;
  meaning: string;
  above: number | null;
  at_least: number | null;
  choices: string[];
}

export interface SettingsSection {
  name: string;
  signal: string;
  metrics: string[];
  about: string;
  settings: Setting[];
}

export interface WhatIfIncident {
  id: string;
  number: number;
  signal: string;
  severity: string;
  state: string;
  started: number;
  opened: number | null;
  ended: number | null;
  detectors: string[];
  title: string;
  message: string;
}

export interface WhatIf {
  steps: number;
  first_step: number | null;
  truncated: boolean;
  seconds: number;
  alerts: Alert[];
  alerts_total: number;
  incidents: WhatIfIncident[];
  recorded: { alerts_total: number; incidents: number };
  yaml: string;
}

export interface Done {
  applied: string;
  text: string;
}

/** What changed of one run, as the live connection says it. */
export interface RunChange {
  run: string;
  what: string[];
  first_changed_step?: number | null;
  last_step?: number | null;
  last_seen?: number | null;
  health?: string;
  activity?: string;
  incidents?: IncidentCounts;
  latest?: Record<string, Value>;
}
