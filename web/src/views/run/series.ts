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

export interface LoadedCurves {
  curves: Curves;
  /** The axis they were loaded for: not yet the one that was asked for last. */
  axis: "step" | "time";
}

export function useCurves({ run, metrics, axis, from, to, width }: CurvesQuery): LoadedCurves | null {
  const names = metrics.join("\n");
  const { data, reload } = useLoaded(
    async (signal) => ({
      axis,
      curves: metrics.length > 0 ? await getSeries(run, metrics, { axis, from, to, width }, signal) : {},
    }),
    [run, names, axis, from, to, width],
  );
  const [loaded, setLoaded] = useState<LoadedCurves | null>(null);
  const followed = useRef({ points: 0, changedFrom: Infinity, asking: false });

  useEffect(() => {
    followed.current = { points: 0, changedFrom: Infinity, asking: false };
    setLoaded(data);
  }, [data]);

  const follow = useThrottled(() => {
    const state = followed.current;
    if (!loaded || loaded.axis !== axis || metrics.length === 0 || to !== undefined || state.asking) return;
    // The points that were added are finer than the rest: from time to time, all are asked for again.
    if (state.points > width / 2) return reload();
    const end = lastX(loaded.curves);
    const start = axis === "step" ? Math.min(end, state.changedFrom) : end;
    state.changedFrom = Infinity;
    state.asking = true;
    getSeries(run, metrics, { axis, from: start, width }).then(
      (tail) => {
        if (followed.current !== state) return;
        state.asking = false;
        state.points += Math.max(0, ...Object.values(tail).map((series) => series.x.length - 1));
        setLoaded(
          (kept) =>
            kept && {
              axis: kept.axis,
              curves: mapped(kept.curves, (series, name) => (tail[name] ? withTail(series, tail[name], start) : series)),
            },
        );
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
  return loaded;
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
