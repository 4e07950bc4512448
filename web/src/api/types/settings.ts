/** The settings of runs: used, compared, and tried. */
import type { Alert } from "./incidents";

export interface Config {
  settings: Record<string, unknown>;
  changed: { setting: string; value: unknown; default: unknown }[];
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
  metric: string;
  subject: string;
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
