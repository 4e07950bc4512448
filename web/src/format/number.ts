/** Numbers as people read them; the same rules as klarm's messages. */
import type { Value } from "../api/types";

/** A value with this many digits, and without an exponent where that is short enough. */
export function number(value: Value | null | undefined, digits = 3): string {
  if (value === null || value === undefined) return "–";
  if (typeof value === "string") return value;
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "Infinity" : "-Infinity";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1 && size < 1e6) {
    const rounded = Number(value.toPrecision(digits));
    return String(Math.abs(rounded) < 10 ** digits ? rounded : Math.round(value));
  }
  const text = Number(value.toPrecision(digits));
  if (size >= 1e-4 && size < 1) return String(text);
  return text.toExponential().replace("e+", "e");
}

/** A count with thousands separated by a thin space, which no locale mistakes for a decimal sign. */
export function count(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  return String(value).replace(/\B(?=(\d{3})+(?!\d))/g, "\u202f");
}

export function counted(many: number, noun: string): string {
  return `${count(many)} ${many === 1 ? noun : `${noun}s`}`;
}

/** A number that can be calculated with, or null. */
export function finite(value: Value | null | undefined): number | null {
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}

/** How many times something is what it was: "28 times its earlier level"; empty where that says nothing. */
export function timesBefore(now: Value | null, before: Value | null): string {
  const a = finite(now);
  const b = finite(before);
  if (a === null || b === null || a <= 0 || b <= 0) return "";
  const factor = a / b;
  if (factor >= 1.05) return `${factor < 10 ? number(factor, 2) : count(Math.round(factor))} times its earlier level`;
  if (factor < 0.95) return `${number(factor * 100, 2)} % of its earlier level`;
  return "";
}
