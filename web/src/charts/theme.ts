/** Colours of the charts, taken from the style sheet, so that dark mode is decided in one place. */
import { useEffect, useState } from "preact/hooks";

const NAMES = [
  "text", "muted", "grid", "surface", "accent", "raw", "smooth", "band", "critical", "warning", "ok", "checkpoint", "rollback",
] as const;

export type Theme = Record<(typeof NAMES)[number], string> & { lines: string[]; font: string };

export const LINE_COLOURS = 8;

export function readTheme(): Theme {
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string) => style.getPropertyValue(`--${name}`).trim();
  const theme = Object.fromEntries(NAMES.map((name) => [name, colour(name)])) as unknown as Theme;
  theme.lines = Array.from({ length: LINE_COLOURS }, (_, index) => colour(`line-${index + 1}`));
  theme.font = `11px ${style.getPropertyValue("--font").trim() || "sans-serif"}`;
  return theme;
}

/** The theme, read again when the system changes between light and dark. */
export function useTheme(): Theme {
  const [theme, setTheme] = useState(readTheme);
  useEffect(() => {
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const read = () => setTheme(readTheme());
    dark.addEventListener("change", read);
    return () => dark.removeEventListener("change", read);
  }, []);
  return theme;
}

export const severityColour = (theme: Theme, severity: string) =>
  severity === "critical" ? theme.critical : severity === "warning" ? theme.warning : theme.muted;
