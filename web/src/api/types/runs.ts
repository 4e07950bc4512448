/** The runs of a folder, one run, and what the live connection says of them. */
import type { Value } from "./curves";

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
  metric: string;
  subject: string;
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
  /** A sentence if no detector knows any metric of the run, otherwise empty. */
  not_watched: string;
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
