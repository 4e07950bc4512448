/** Short messages that disappear by themselves, read out by screen readers. */
import { useEffect, useState } from "preact/hooks";

interface Toast {
  id: number;
  text: string;
  failed: boolean;
}

const SECONDS = 6;
let show: ((toast: Toast) => void) | null = null;
let count = 0;

export function toast(text: string, failed = false): void {
  count += 1;
  show?.({ id: count, text, failed });
}

export function Toasts() {
  const [toasts, setToasts] = useState<Toast[]>([]);
  useEffect(() => {
    show = (added) => {
      setToasts((kept) => [...kept.slice(-2), added]);
      setTimeout(() => setToasts((kept) => kept.filter((one) => one.id !== added.id)), SECONDS * 1000);
    };
    return () => {
      show = null;
    };
  }, []);
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.map((one) => (
        <p key={one.id} class={one.failed ? "toast failed" : "toast"}>
          {one.text}
        </p>
      ))}
    </div>
  );
}
