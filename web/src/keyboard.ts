/** Keys that act anywhere on the page, except while somebody types. */
import { useEffect, useRef } from "preact/hooks";

export type Keys = Record<string, () => void>;

export function useKeys(keys: Keys): void {
  const latest = useRef(keys);
  latest.current = keys;
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || isTyping(event.target)) return;
      if (document.querySelector("dialog[open]")) return;
      const act = latest.current[event.key];
      if (!act) return;
      event.preventDefault();
      act();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
}

/** What each key does, for the help. */
export const HELP: [keys: string, meaning: string][] = [
  ["/", "Filter the runs"],
  ["j  k", "Next or previous run"],
  ["Enter", "Open the selected run (overview)"],
  ["x", "Select the run for a comparison (overview)"],
  ["e", "Zoom to the next incident (run), open the worst one (overview)"],
  ["l", "Logarithmic or linear axis"],
  ["s", "Smoothing on or off"],
  ["0", "Show the whole run again"],
  ["g", "Back to the overview"],
  ["?", "This help"],
];

function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target instanceof HTMLInputElement) return !["checkbox", "radio", "range", "button"].includes(target.type);
  return target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement || target.isContentEditable;
}
