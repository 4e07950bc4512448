/** The runs of the overview, kept up to date by the live connection. */
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { getOverview, getSomeRuns, type ApiError } from "../../api/client";
import { useChanges, useLoaded, useThrottled } from "../../api/hooks";
import { live } from "../../api/live";
import type { Overview, RunChange, RunSummary } from "../../api/types";
import { changed } from "./order";

const ROW_REFRESH_MS = 700;
// Addresses must not get too long.
const ROWS_PER_REQUEST = 40;
const INDEXING_MS = 1000;
const NONE: RunSummary[] = [];

interface Runs {
  /** Null until its list of runs is in `runs`: no list is not an empty list. */
  overview: Overview | null;
  runs: RunSummary[];
  error: ApiError | null;
  reload: () => void;
}

export function useRuns(): Runs {
  const { data, error, reload } = useLoaded(getOverview, []);
  const [runs, setRuns] = useState<RunSummary[] | null>(null);
  const stale = useRef(new Set<string>());

  const refreshRows = useThrottled(() => {
    const ids = [...stale.current];
    stale.current.clear();
    for (let at = 0; at < ids.length; at += ROWS_PER_REQUEST) {
      getSomeRuns(ids.slice(at, at + ROWS_PER_REQUEST)).then(
        (answer) => setRuns((kept) => kept && replaced(kept, answer.runs)),
        // The rows stay as the live connection described them; the next change asks again.
        () => undefined,
      );
    }
  }, ROW_REFRESH_MS);

  const apply = useCallback((changes: RunChange[]) => {
    const byRun = new Map(changes.map((change) => [change.run, change]));
    setRuns((kept) =>
      kept
        ?.filter((run) => !byRun.get(run.id)?.what.includes("removed"))
        .map((run) => {
          const change = byRun.get(run.id);
          return change ? changed(run, change) : run;
        }) ?? null,
    );
    for (const change of changes) if (!change.what.includes("removed")) stale.current.add(change.run);
    refreshRows();
  }, []);

  useEffect(() => {
    if (!data) return;
    setRuns(data.runs);
    const missed = live.since(data.cursor);
    if (missed && missed.length > 0) apply(missed);
    if (!data.indexing) return;
    const timer = setTimeout(reload, INDEXING_MS);
    return () => clearTimeout(timer);
  }, [data]);

  useChanges(null, apply, reload);
  return { overview: runs && data, runs: runs ?? NONE, error, reload };
}

/** Put newer rows in the place of older ones; a run that was not there is added. */
function replaced(kept: RunSummary[], newer: RunSummary[]): RunSummary[] {
  const byId = new Map(newer.map((run) => [run.id, run]));
  const rows = kept.map((run) => {
    const row = byId.get(run.id) ?? run;
    byId.delete(run.id);
    return row;
  });
  return [...rows, ...byId.values()];
}
