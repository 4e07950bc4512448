/** Hooks that load from the server and keep what they have while something newer is on its way. */
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { ApiError } from "./client";
import { live, type Connection } from "./live";
import type { RunChange } from "./types";

export interface Loaded<T> {
  data: T | null;
  error: ApiError | null;
  reload: () => void;
}

/** Load something, and again whenever one of `inputs` changes. An answer that is too late is dropped. */
export function useLoaded<T>(load: ((signal: AbortSignal) => Promise<T>) | null, inputs: unknown[]): Loaded<T> {
  const [state, setState] = useState<{ data: T | null; error: ApiError | null }>({ data: null, error: null });
  const running = useRef<AbortController | null>(null);
  const latest = useRef(load);
  latest.current = load;

  const reload = useCallback(() => {
    running.current?.abort();
    const ask = latest.current;
    if (ask === null) return;
    const abort = new AbortController();
    running.current = abort;
    ask(abort.signal).then(
      (data) => !abort.signal.aborted && setState({ data, error: null }),
      (error: unknown) => !abort.signal.aborted && setState((kept) => ({ ...kept, error: asApiError(error) })),
    );
  }, []);

  useEffect(() => {
    reload();
    return () => running.current?.abort();
  }, inputs);
  return { ...state, reload };
}

/** Call back with the changes of a run (or of all runs), and once more when everything must be read again. */
export function useChanges(run: string | null, changed: (changes: RunChange[]) => void, reset: () => void): void {
  const latest = useRef({ changed, reset });
  latest.current = { changed, reset };
  useEffect(
    () =>
      live.listen(
        (changes) => {
          const mine = run === null ? changes : changes.filter((change) => change.run === run);
          if (mine.length > 0) latest.current.changed(mine);
        },
        () => latest.current.reset(),
      ),
    [run],
  );
}

export function useConnection(): Connection {
  const [connection, setConnection] = useState(live.connection);
  useEffect(() => live.watchConnection(setConnection), []);
  return connection;
}

/** Return a function that runs `act` at most once per `milliseconds`, and always after the last call. */
export function useThrottled(act: () => void, milliseconds: number): () => void {
  const latest = useRef(act);
  latest.current = act;
  const timer = useRef<ReturnType<typeof setTimeout> | null>(null);
  const last = useRef(0);
  useEffect(() => () => void (timer.current && clearTimeout(timer.current)), []);
  return useCallback(() => {
    if (timer.current) return;
    const wait = Math.max(0, last.current + milliseconds - Date.now());
    timer.current = setTimeout(() => {
      timer.current = null;
      last.current = Date.now();
      latest.current();
    }, wait);
  }, [milliseconds]);
}

export function asApiError(error: unknown): ApiError {
  return error instanceof ApiError ? error : new ApiError(0, "page", error instanceof Error ? error.message : String(error));
}
