/** "3 min ago", kept up to date. */
import { useEffect, useState } from "preact/hooks";
import { ago, moment, utc } from "../format/time";

export function useNow(): number {
  const [now, setNow] = useState(Date.now() / 1000);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now() / 1000), 5000);
    return () => clearInterval(timer);
  }, []);
  // A time that is newer than the last tick is not in the future.
  return Math.max(now, 0);
}

export function Ago({ time }: { time: number | null }) {
  const now = useNow();
  return <time title={utc(time)}>{ago(time, now)}</time>;
}

export function Moment({ time }: { time: number | null }) {
  const now = useNow();
  return <time title={utc(time)}>{moment(time, now)}</time>;
}
