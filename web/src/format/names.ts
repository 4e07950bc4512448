/** Names of metrics, signals and states as the page shows them. Unknown ones are shown as they are. */

const SHOWN: Record<string, string> = { kl: "KL", kl_old: "KL to old policy", kl_rollout: "KL to sampler" };

/** A name within a sentence or as a heading. */
export function shown(name: string): string {
  return SHOWN[name] ?? name.replaceAll("_", " ");
}

export function heading(name: string): string {
  const text = shown(name);
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** What an incident is about, from its opening to its end; an index of an earlier klarm does not have it. */
export const subject = ({ subject: known, metric, signal }: { subject?: string; metric?: string; signal: string }) =>
  heading(known || metric || signal);

// How a run is, where that is no severity.
const HEALTH: Record<string, string> = { empty: "no data yet", unwatched: "not watched" };

export const healthText = (health: string) => HEALTH[health] ?? health;

const ACTIVITY: Record<string, string> = { detached: "not followed" };

/** Whether a run is training, in words. A detached run may be, but klarm no longer reads its log. */
export const activityText = (activity: string) => ACTIVITY[activity] ?? activity;

const HEALTH_ORDER = ["critical", "warning"];

/** How urgent a health or severity is, the most urgent first. One that is not known comes before "ok". */
export function urgency(health: string): number {
  const known = HEALTH_ORDER.indexOf(health);
  if (known >= 0) return known;
  return HEALTH_ORDER.length + ["ok", "empty"].indexOf(health) + 1;
}

/** The tone something is shown in; unknown kinds are neutral. */
export function tone(kind: string): "critical" | "warning" | "ok" | "neutral" {
  return kind === "critical" || kind === "warning" || kind === "ok" ? kind : "neutral";
}
