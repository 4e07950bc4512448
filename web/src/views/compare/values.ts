/** The value of a setting as text. */
export function shownValue(value: unknown): string {
  if (value === undefined) return "–";
  if (value === null) return "none";
  return typeof value === "string" ? value : JSON.stringify(value);
}
