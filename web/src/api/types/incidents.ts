/** Alerts and incidents, and what people do about them. */
import type { Value } from "./curves";

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

export interface PendingCommand {
  command: string;
  by: string;
  time: number;
}

/** What every list of incidents says of each. */
export interface IncidentSummary {
  id: string;
  number: number;
  signal: string;
  metric: string;
  subject: string;
  severity: string;
  state: string;
  started: number;
  title: string;
  /** What its worst alert says, whatever became of it since. */
  message: string;
}

export interface Incident extends IncidentSummary {
  state_text: string;
  is_open: boolean;
  reason: string;
  headline: string;
  why: string;
  started_time: number | null;
  onset: number | null;
  /** The onset, if it was well before the first alert, as messages say it. */
  out_of_range_from: number | null;
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

/** One message, which may be about several events. */
export interface Delivery {
  channel: string;
  events: { event: string; step: number | null }[];
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
  diagnosis: { event: string; step: number; pattern: string; cause: string; remedy: string; page: string } | null;
  advice: string[];
  checkpoint: { step: number | null; path: string } | null;
  deliveries: Delivery[];
}

export interface Done {
  applied: string;
  text: string;
}
