/** What a run has besides its curves, read again when the live connection says that it changed. */
import { getAlerts, getCheckpoints, getIncidents, getRollbacks, getRun, type ApiError } from "../../api/client";
import { useChanges, useLoaded, useThrottled } from "../../api/hooks";
import type { Alert, Blip, Checkpoint, Incident, Rollback, Run } from "../../api/types";

export interface RunRecord {
  run: Run | null;
  error: ApiError | null;
  incidents: Incident[];
  blips: Blip[];
  alerts: Alert[];
  checkpoints: Checkpoint[];
  rollbacks: Rollback[];
  reload: () => void;
}

const REFRESH_MS = 400;

export function useRecord(id: string): RunRecord {
  const run = useLoaded((signal) => getRun(id, signal), [id]);
  const incidents = useLoaded((signal) => getIncidents(id, signal), [id]);
  const alerts = useLoaded((signal) => getAlerts(id, signal), [id]);
  const checkpoints = useLoaded((signal) => getCheckpoints(id, signal), [id]);
  const rollbacks = useLoaded((signal) => getRollbacks(id, signal), [id]);
  const readRun = useThrottled(run.reload, REFRESH_MS);
  const readAlerts = useThrottled(alerts.reload, REFRESH_MS);

  const readAll = () => {
    for (const part of [run, incidents, alerts, checkpoints, rollbacks]) part.reload();
  };
  useChanges(
    id,
    (changes) => {
      const what = new Set(changes.flatMap((change) => change.what));
      if (what.has("rollback")) return readAll();
      readRun();
      if (what.has("alerts")) readAlerts();
      if (["incidents", "commands", "deliveries", "activity"].some((kind) => what.has(kind))) incidents.reload();
      if (what.has("checkpoints")) checkpoints.reload();
    },
    readAll,
  );
  return {
    run: run.data,
    error: run.error,
    incidents: incidents.data?.incidents ?? [],
    blips: incidents.data?.blips ?? [],
    alerts: alerts.data?.alerts ?? [],
    checkpoints: checkpoints.data?.checkpoints ?? [],
    rollbacks: rollbacks.data?.rollbacks ?? [],
    reload: readAll,
  };
}
