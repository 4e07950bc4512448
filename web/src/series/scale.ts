/** Ranges of value axes: what has to be seen, and what a logarithm can show. */

// A logarithmic axis shows no more decades than this below the largest value, ...
const MAX_DECADES = 9;
// ... and no more than one below what all but a few values reach: KL begins at zero.
const FEW = 0.05;

/** The least value that a logarithmic axis shows: zeros and negative values are drawn there. */
export function logFloor(values: readonly (number | null)[]): number {
  const positive = Float64Array.from(values.filter((value): value is number => value !== null && value > 0 && value < Infinity)).sort();
  const least = positive[0];
  const greatest = positive.at(-1);
  if (least === undefined || greatest === undefined) return 1e-3;
  const usual = positive[Math.floor(positive.length * FEW)] ?? least;
  return Math.max(least, usual / 10, greatest / 10 ** MAX_DECADES);
}

/** Values as a logarithmic axis can draw them. */
export function lifted(values: readonly (number | null)[], floor: number): (number | null)[] {
  return values.map((value) => (value !== null && value < floor ? floor : value));
}

/** Whole decades around a range. */
export function decades(least: number, greatest: number): [number, number] {
  const low = Math.floor(Math.log10(least) + 1e-9);
  const high = Math.max(Math.ceil(Math.log10(greatest) - 1e-9), low + 1);
  return [10 ** low, 10 ** high];
}

/** A range with some air above and below. */
export function padded(least: number, greatest: number): [number, number] {
  if (least === greatest) {
    const air = Math.abs(least) * 0.1 || 1;
    return [least - air, greatest + air];
  }
  const air = (greatest - least) * 0.08;
  return [least - air, greatest + air];
}

/** The least and greatest finite value; null if there is none. */
export function extent(values: readonly (number | null)[]): [number, number] | null {
  let least = Infinity;
  let greatest = -Infinity;
  for (const value of values) {
    if (value === null || !Number.isFinite(value)) continue;
    if (value < least) least = value;
    if (value > greatest) greatest = value;
  }
  return least <= greatest ? [least, greatest] : null;
}
