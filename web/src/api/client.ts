/** Asks the server. Every failure is an ApiError whose message a person can read. */
import type {
  Alerts, Baseline, Checkpoint, Comparison, Config, Done, IncidentDetail, Incidents, Overview, Rollback, Run,
  SeriesAnswer, SettingsSection, WhatIf,
} from "./types";

const ROOT = "/api/v1";

export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
  ) {
    super(message);
  }
}

export interface SeriesQuery {
  axis: "step" | "time";
  from?: number | undefined;
  to?: number | undefined;
  width: number;
}

export const getOverview = (signal?: AbortSignal) => get<Overview>("/runs", signal);

export const getRunNames = (signal?: AbortSignal) => get<Overview>("/runs?sparklines=false", signal);

export const getSomeRuns = (ids: string[]) => get<Overview>(`/runs?runs=${ids.map(encodeURIComponent).join(",")}`);

export const getRun = (run: string, signal?: AbortSignal) => get<Run>(runPath(run), signal);

export const getIncidents = (run: string, signal?: AbortSignal) =>
  get<Incidents>(`${runPath(run)}/incidents`, signal);

export const getIncident = (run: string | null, id: string, signal?: AbortSignal) =>
  get<IncidentDetail>(`${run === null ? "" : runPath(run)}/incidents/${encodeURIComponent(id)}`, signal);

export const getAlerts = (run: string, signal?: AbortSignal) =>
  get<Alerts>(`${runPath(run)}/alerts?limit=10000`, signal);

export const getCheckpoints = (run: string, signal?: AbortSignal) =>
  get<{ checkpoints: Checkpoint[] }>(`${runPath(run)}/checkpoints`, signal);

export const getRollbacks = (run: string, signal?: AbortSignal) =>
  get<{ rollbacks: Rollback[] }>(`${runPath(run)}/rollbacks`, signal);

export const getConfig = (run: string, signal?: AbortSignal) => get<Config>(`${runPath(run)}/config`, signal);

export const getComparison = (runs: string[], signal?: AbortSignal) =>
  get<Comparison>(`/compare?runs=${runs.map(encodeURIComponent).join(",")}`, signal);

export const getSettings = (signal?: AbortSignal) => get<{ sections: SettingsSection[] }>("/settings", signal);

export function getBaseline(run: string, query: SeriesQuery, detector = "kl_explosion", signal?: AbortSignal) {
  return get<Baseline>(`${runPath(run)}/baseline?detector=${encodeURIComponent(detector)}&${plot(query)}`, signal);
}

// The server takes 50 metrics at a time.
const METRICS_PER_REQUEST = 50;

export async function getSeries(run: string, metrics: string[], query: SeriesQuery, signal?: AbortSignal) {
  const asked: Promise<SeriesAnswer>[] = [];
  for (let at = 0; at < metrics.length; at += METRICS_PER_REQUEST) {
    const names = metrics.slice(at, at + METRICS_PER_REQUEST).map(metricParameter).join(",");
    asked.push(get<SeriesAnswer>(`${runPath(run)}/series?metrics=${names}&${plot(query)}`, signal));
  }
  const answers = await Promise.all(asked);
  return Object.assign({}, ...answers.map((answer) => answer.series)) as SeriesAnswer["series"];
}

/** Try settings on the last steps of a run; by default as many as take a moment. */
export const tryWhatIf = (run: string, settings: Record<string, Record<string, unknown>>, steps: number, signal?: AbortSignal) =>
  send<WhatIf>("POST", `${runPath(run)}/what-if`, { settings, last_steps: steps }, signal);

export const acknowledge = (run: string, incident: string, by: string) =>
  send<Done>("POST", `${incidentPath(run, incident)}/ack`, signed(by));

export const takeBackAcknowledgement = (run: string, incident: string) =>
  send<Done>("DELETE", `${incidentPath(run, incident)}/ack`);

export const closeIncident = (run: string, incident: string, by: string, accept: boolean) =>
  send<Done>("POST", `${incidentPath(run, incident)}/close`, { ...signed(by), accept });

export const silence = (run: string, signal: string, length: string, evenCritical: boolean, by: string) =>
  send<Done>("POST", `${runPath(run)}/silences`, { ...signed(by), signal, for: length, even_critical: evenCritical });

export const endSilence = (run: string, signal: string) =>
  send<Done>("DELETE", `${runPath(run)}/silences/${encodeURIComponent(signal)}`);

export const markFalseAlarm = (run: string, incident: string, note: string, by: string) =>
  send<Done>("PUT", `${incidentPath(run, incident)}/false-alarm`, { ...signed(by), note });

export const unmarkFalseAlarm = (run: string, incident: string) =>
  send<Done>("DELETE", `${incidentPath(run, incident)}/false-alarm`);

export function exportAddress(run: string, format: "csv" | "parquet", from?: number, to?: number): string {
  const range = (from === undefined ? "" : `&from=${from}`) + (to === undefined ? "" : `&to=${to}`);
  return `${ROOT}${runPath(run)}/export?format=${format}${range}`;
}

/** Ask for a single row, to learn whether this server can write the format at all. */
export async function checkExport(run: string, format: "csv" | "parquet", step: number): Promise<void> {
  const response = await fetch(exportAddress(run, format, step, step));
  if (!response.ok) throw await failure(response);
}

/** A metric's name in a list that commas separate: a comma within the name is escaped twice. */
export function metricParameter(name: string): string {
  return encodeURIComponent(name.replaceAll("%", "%25").replaceAll(",", "%2C"));
}

const runPath = (run: string) => `/runs/${encodeURIComponent(run)}`;
const incidentPath = (run: string, incident: string) => `${runPath(run)}/incidents/${encodeURIComponent(incident)}`;
const signed = (by: string) => (by ? { by } : {});

function plot({ axis, from, to, width }: SeriesQuery): string {
  const range = (from === undefined ? "" : `&from=${from}`) + (to === undefined ? "" : `&to=${to}`);
  return `axis=${axis}&width=${Math.max(1, Math.min(10000, Math.round(width)))}${range}`;
}

async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return request<T>(path, { headers: { Accept: "application/json" }, ...(signal && { signal }) });
}

async function send<T>(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
  return request<T>(path, {
    method,
    ...(body !== undefined && { body: JSON.stringify(body), headers: { "Content-Type": "application/json" } }),
    ...(signal && { signal }),
  });
}

async function request<T>(path: string, init: RequestInit): Promise<T> {
  let response: Response;
  try {
    response = await fetch(ROOT + path, init);
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError(0, "unreachable", "The server does not answer. Is klarm serve still running?");
  }
  if (!response.ok) throw await failure(response);
  return (await response.json()) as T;
}

async function failure(response: Response): Promise<ApiError> {
  if (response.status === 401) {
    location.assign(`/login?next=${encodeURIComponent(location.pathname + location.search)}`);
  }
  try {
    const { error } = (await response.json()) as { error: { code: string; message: string } };
    return new ApiError(response.status, error.code, error.message);
  } catch {
    return new ApiError(response.status, "unknown", `The server answered with status ${response.status}.`);
  }
}
