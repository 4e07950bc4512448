/** The live connection: one for the whole page, shared by all views. */
import type { RunChange } from "./types";

export type Connection = "connecting" | "live" | "lost";
export type Listener = (changes: RunChange[]) => void;

const RETRY_SECONDS = [1, 2, 5, 10];
// What came while a view was still loading is given to it afterwards.
const REMEMBERED = 500;

interface Remembered {
  cursor: number;
  changes: RunChange[];
}

export class Live {
  connection: Connection = "connecting";
  private source: EventSource | null = null;
  private cursor = -1;
  private failures = 0;
  private remembered: Remembered[] = [];
  // From which cursor on nothing is missing in `remembered`.
  private completeSince = -1;
  private readonly listeners = new Set<Listener>();
  private readonly onReset = new Set<() => void>();
  private readonly onConnection = new Set<(connection: Connection) => void>();

  start(): void {
    const from = this.cursor < 0 ? "" : `?cursor=${this.cursor}`;
    const source = new EventSource(`/api/v1/events${from}`);
    this.source = source;
    source.addEventListener("hello", (event) => {
      const { cursor } = parse<{ cursor: number }>(event);
      this.failures = 0;
      if (this.cursor < 0) this.cursor = this.completeSince = cursor;
      this.say("live");
    });
    source.addEventListener("changes", (event) => {
      const { cursor, runs } = parse<{ cursor: number; runs: RunChange[] }>(event);
      this.cursor = cursor;
      this.remember({ cursor, changes: runs });
      for (const listener of [...this.listeners]) listener(runs);
    });
    source.addEventListener("reset", (event) => {
      this.cursor = this.completeSince = parse<{ cursor: number }>(event).cursor;
      this.remembered = [];
      for (const reset of [...this.onReset]) reset();
    });
    source.onerror = () => {
      this.say("lost");
      // The browser tries again by itself, unless the server answered with an error.
      if (source.readyState === EventSource.CLOSED) this.retry();
    };
  }

  stop(): void {
    this.source?.close();
    this.source = null;
  }

  /** What has changed since an answer with this cursor; null if that is not known any more. */
  since(cursor: number): RunChange[] | null {
    if (this.completeSince < 0) return [];
    if (cursor < this.completeSince) return null;
    return this.remembered.filter((kept) => kept.cursor > cursor).flatMap((kept) => kept.changes);
  }

  listen(listener: Listener, reset: () => void): () => void {
    this.listeners.add(listener);
    this.onReset.add(reset);
    return () => {
      this.listeners.delete(listener);
      this.onReset.delete(reset);
    };
  }

  watchConnection(watch: (connection: Connection) => void): () => void {
    this.onConnection.add(watch);
    return () => this.onConnection.delete(watch);
  }

  private retry(): void {
    const seconds = RETRY_SECONDS[Math.min(this.failures, RETRY_SECONDS.length - 1)] ?? 10;
    this.failures += 1;
    setTimeout(() => this.source !== null && this.start(), seconds * 1000);
  }

  private remember(entry: Remembered): void {
    this.remembered.push(entry);
    if (this.remembered.length <= REMEMBERED) return;
    const dropped = this.remembered.shift();
    if (dropped) this.completeSince = dropped.cursor;
  }

  private say(connection: Connection): void {
    if (this.connection === connection) return;
    this.connection = connection;
    for (const watch of [...this.onConnection]) watch(connection);
  }
}

export const live = new Live();

const parse = <T>(event: Event) => JSON.parse((event as MessageEvent<string>).data) as T;
