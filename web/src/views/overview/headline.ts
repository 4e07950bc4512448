/** How many of the listed runs need attention, and how many are how. */
import type { RunSummary } from "../../api/types";
import { healthText, urgency } from "../../format/names";
import { count } from "../../format/number";

const FINE = ["ok", "empty"];

/** Runs that cannot be read or are not watched need attention, too: nobody knows how they are. */
export function attention(runs: RunSummary[]): string {
  if (runs.length === 0) return "Runs";
  const found = runs.filter((run) => !FINE.includes(run.health)).length;
  if (found === 0) return "No run needs attention";
  const which = runs.length === 1 ? "1 run" : `${count(found)} of ${count(runs.length)} runs`;
  return `${which} ${found === 1 ? "needs" : "need"} attention`;
}

/** The worst first. */
export function inParts(runs: RunSummary[]): string {
  const counts = new Map<string, number>();
  for (const { health } of runs) counts.set(health, (counts.get(health) ?? 0) + 1);
  return [...counts]
    .sort(([a], [b]) => urgency(a) - urgency(b) || ORDER.indexOf(a) - ORDER.indexOf(b))
    .map(([health, many]) => part(health, many))
    .join(", ");
}

const ORDER = ["unreadable", "unwatched"];

function part(health: string, many: number): string {
  if (health === "warning") return many === 1 ? "1 with a warning" : `${count(many)} with warnings`;
  return `${count(many)} ${health === "empty" ? "without data" : healthText(health)}`;
}
