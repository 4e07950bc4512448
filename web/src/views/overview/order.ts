/** Which runs are listed, and in which order. */
import type { RunChange, RunSummary } from "../../api/types";
import { activityText, healthText, subject, urgency } from "../../format/names";
import { finite } from "../../format/number";

export const SORTS = {
  worst: "Worst first",
  seen: "Last seen",
  name: "Name",
  step: "Step",
  kl: "KL",
  reward: "Reward",
  entropy: "Entropy",
} as const;

export type Sort = keyof typeof SORTS;

export const sortIn = (text: string | null): Sort => (text !== null && Object.hasOwn(SORTS, text) ? (text as Sort) : "worst");

type Compare = (a: RunSummary, b: RunSummary) => number;

// A run that trains comes before one that has ended: something can still be done about it. `klarm runs` has the same order.
const worst: Compare = (a, b) =>
  urgency(a.health) - urgency(b.health) ||
  Number(b.activity === "training") - Number(a.activity === "training") ||
  b.incidents.critical - a.incidents.critical ||
  b.incidents.open - a.incidents.open ||
  (b.started ?? 0) - (a.started ?? 0) ||
  byName(a, b);
const byName: Compare = (a, b) => a.name.localeCompare(b.name, undefined, { numeric: true });
const descending = (value: (run: RunSummary) => number | null): Compare => (a, b) =>
  (value(b) ?? -Infinity) - (value(a) ?? -Infinity) || byName(a, b);
const latest = (metric: string) => descending((run) => finite(run.latest[metric]));

const ORDERS: Record<Sort, Compare> = {
  worst,
  seen: descending((run) => run.last_seen),
  name: byName,
  step: descending((run) => run.last_step),
  kl: latest("kl"),
  reward: latest("reward"),
  // An entropy that has collapsed is what one looks for.
  entropy: (a, b) => (finite(a.latest["entropy"]) ?? Infinity) - (finite(b.latest["entropy"]) ?? Infinity) || byName(a, b),
};

export function listed(runs: RunSummary[], filter: string, sort: Sort): RunSummary[] {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const found = words.length === 0 ? [...runs] : runs.filter((run) => matches(run, words));
  return found.sort(ORDERS[sort]);
}

/** Every word must be somewhere in what the row shows. */
function matches(run: RunSummary, words: string[]): boolean {
  const text = [run.name, run.folder, run.health, healthText(run.health), activityText(run.activity), run.framework, run.host, run.worst && subject(run.worst), run.worst?.title].join(" ").toLowerCase();
  return words.every((word) => text.includes(word));
}

/** Bring a row up to date with what the live connection says. */
export function changed(run: RunSummary, change: RunChange): RunSummary {
  return {
    ...run,
    health: change.health ?? run.health,
    activity: change.activity ?? run.activity,
    incidents: change.incidents ?? run.incidents,
    last_step: change.last_step ?? run.last_step,
    last_seen: change.last_seen ?? run.last_seen,
    latest: change.latest ?? run.latest,
  };
}
