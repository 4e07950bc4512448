/** Addresses of the page: which view they show, and the state that is in their query. */

export type View = "overview" | "run" | "incident" | "compare" | "what-if" | "unknown";

export interface Address {
  view: View;
  run: string | null;
  incident: string | null;
  query: URLSearchParams;
}

export function parseAddress(pathname: string, search: string): Address {
  const parts = pathname.split("/").filter(Boolean).map(decode);
  const at = (view: View, run: string | null = null, incident: string | null = null): Address => ({
    view, run, incident, query: new URLSearchParams(search),
  });
  const [first, second, third, fourth] = parts;
  if (first === undefined) return at("overview");
  if (first === "compare" && parts.length === 1) return at("compare");
  if (first === "incidents" && second !== undefined && parts.length === 2) return at("incident", null, second);
  if (first === "runs" && second !== undefined) {
    if (parts.length === 2) return at("run", second);
    if (third === "what-if" && parts.length === 3) return at("what-if", second);
    if (third === "incidents" && fourth !== undefined && parts.length === 4) return at("incident", second, fourth);
  }
  return at("unknown");
}

export const overviewAddress = () => "/";
export const runAddress = (run: string, query = "") => `/runs/${encodeURIComponent(run)}${query}`;
export const whatIfAddress = (run: string) => `${runAddress(run)}/what-if`;
export const incidentAddress = (run: string, id: string) => `${runAddress(run)}/incidents/${encodeURIComponent(id)}`;
export const compareAddress = (runs: string[]) => `/compare?runs=${runs.map(encodeURIComponent).join(",")}`;

/** Return a query with some values changed; null removes one. */
export function withQuery(query: URLSearchParams, changes: Record<string, string | null>): string {
  const next = new URLSearchParams(query);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null) next.delete(name);
    else next.set(name, value);
  }
  const text = next.toString().replaceAll("%2C", ",");
  return text ? `?${text}` : "";
}

/** Read a number from a query; anything else is undefined. */
export function numberIn(query: URLSearchParams, name: string): number | undefined {
  const text = query.get(name);
  if (text === null || text.trim() === "") return undefined;
  const value = Number(text);
  return Number.isFinite(value) ? value : undefined;
}

export function listIn(query: URLSearchParams, name: string): string[] {
  return [...new Set((query.get(name) ?? "").split(",").filter(Boolean))];
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
