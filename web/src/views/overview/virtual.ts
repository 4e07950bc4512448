/** Which rows of a long list are near the screen: only those are drawn. */
import { useEffect, useRef, useState } from "preact/hooks";
import type { RefObject } from "preact";

const BEYOND = 8;

interface Window {
  first: number;
  end: number;
}

export function useVisibleRows(count: number, rowHeight: number): Window & { list: RefObject<HTMLDivElement | null> } {
  const list = useRef<HTMLDivElement>(null);
  const [rows, setRows] = useState<Window>({ first: 0, end: 30 });
  useEffect(() => {
    let frame = 0;
    const measure = () => {
      frame = 0;
      const top = list.current?.getBoundingClientRect().top ?? 0;
      const first = Math.max(0, Math.floor(-top / rowHeight) - BEYOND);
      const end = Math.ceil((innerHeight - top) / rowHeight) + BEYOND;
      // A new set of rows only every few rows: scrolling in between costs nothing.
      const coarse = { first: first - (first % 4), end: end + (4 - (end % 4)) };
      setRows((kept) => (kept.first === coarse.first && kept.end === coarse.end ? kept : coarse));
    };
    const soon = () => {
      frame ||= requestAnimationFrame(measure);
    };
    measure();
    addEventListener("scroll", soon, { passive: true });
    addEventListener("resize", soon);
    return () => {
      cancelAnimationFrame(frame);
      removeEventListener("scroll", soon);
      removeEventListener("resize", soon);
    };
  }, [count, rowHeight]);
  return { first: Math.min(rows.first, count), end: Math.min(rows.end, count), list };
}

/** Whether the screen is as narrow as a phone's: rows are taller there. */
export function useNarrow(): boolean {
  const query = matchMedia("(max-width: 760px)");
  const [narrow, setNarrow] = useState(query.matches);
  useEffect(() => {
    const read = () => setNarrow(query.matches);
    query.addEventListener("change", read);
    return () => query.removeEventListener("change", read);
  }, []);
  return narrow;
}
