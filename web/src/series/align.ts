/** Comparing runs: where each run's own zero is. */
import type { Comparison } from "../api/types";

export type Alignment = "step" | "time" | "incident";

export function alignmentIn(text: string | null): Alignment {
  return text === "time" || text === "incident" ? text : "step";
}

/** The axis the server has to be asked for. */
export const axisOf = (alignment: Alignment): "step" | "time" => (alignment === "time" ? "time" : "step");

/** What to subtract from a run's x; null if the run cannot be aligned this way. */
export function offsetOf(run: Comparison["runs"][number], alignment: Alignment): number | null {
  if (alignment === "step") return 0;
  if (alignment === "time") return run.started;
  return run.incident?.step ?? null;
}
