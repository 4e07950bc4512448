/** The curves of a run, with their newest points while it trains. */
import { useEffect, useRef, useState } from "preact/hooks";
import { getSeries } from "../../api/client";
import { useChanges, useLoaded, useThrottled } from "../../api/hooks";
import type { RunChange, Series } from "../../api/types";
import { withTail } from "../../series/tail";

export type Curves = Record<string, Series>;

export interface CurvesQuery {
  run: string;
  metrics: string[];
  axis: "step" | "time";
  from?: number | undefined;
  to?: number | undefined;
  width: number;
}

const FOLLOW_MS = 250;

export function useCurves({ run, metrics, axis, from, to, width }: CurvesQuery): Curves | null {
  const names = metrics.join("\n");
  const { data, reload } = useLoaded(
    metrics.length > 0 ? (signal) => getSeries(run, metrics, { axis, from, to, width }, signal) : null,
    [run, names, axis, from, to, width],
  );
  const [curves, setCurves] = useState<Curves | null>(null);
  const followed = useRef({ points: 0, changedFrom: Infinity, asking: false });

  useEffect(() => {
    followed.current = { points: 0, changedFrom: Infinity, asking: false };
    setCurves(data);
  }, [data]);

  const follow = useThrottled(() => {
    const state = followed.current;
    if (!curves || to !== undefined || state.asking) return;
    // The points that were added are finer than the rest: from time to time, all are asked for again.
    if (state.points > width / 2) return reload();
    const end = lastX(curves);
    const start = axis === "step" ? Math.min(end, state.changedFrom) : end;
    state.changedFrom = Infinity;
    state.asking = true;
    getSeries(run, metrics, { axis, from: start, width }).then(
      (tail) => {
        if (followed.current !== state) return;
        state.asking = false;
        state.points += Math.max(0, ...Object.values(tail).map((series) => series.x.length - 1));
        setCurves((kept) => kept && mapped(kept, (series, name) => (tail[name] ? withTail(series, tail[name], start) : series)));
        if (state.changedFrom < Infinity) follow();
      },
      () => {
        state.asking = false;
      },
    );
  }, FOLLOW_MS);

  useChanges(
    run,
    (changes: RunChange[]) => {
      if (changes.some((change) => change.what.includes("rollback"))) return reload();
      if (to !== undefined || !changes.some((change) => change.what.includes("steps"))) return;
      for (const change of changes) {
        followed.current.changedFrom = Math.min(followed.current.changedFrom, change.first_changed_step ?? Infinity);
      }
      follow();
    },
    reload,
  );
  return curves;
}

/** The range that all curves cover. */
export function rangeOf(curves: Curves): [number, number] | null {
  let first = Infinity;
  let last = -Infinity;
  for (const { x, non_finite: missing } of Object.values(curves)) {
    first = Math.min(first, x[0] ?? Infinity, missing[0]?.x ?? Infinity);
    last = Math.max(last, x.at(-1) ?? -Infinity, missing.at(-1)?.x ?? -Infinity);
  }
  return first <= last ? [first, last] : null;
}

const lastX = (curves: Curves) => rangeOf(curves)?.[1] ?? 0;

function mapped(curves: Curves, change: (series: Series, name: string) => Series): Curves {
  return Object.fromEntries(Object.entries(curves).map(([name, series]) => [name, change(series, name)]));
}
