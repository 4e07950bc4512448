/** Ranges of value axes: what has to be seen, and what a logarithm can show. */

// Below the largest value by more than this, a logarithmic axis shows the floor.
const MOST_DECADES = 9;

/** The least value that a logarithmic axis shows: zeros and negative values are drawn there. */
export function logFloor(values: readonly (number | null)[]): number {
  let least = Infinity;
  let greatest = 0;
  for (const value of values) {
    if (value === null || !(value > 0) || !Number.isFinite(value)) continue;
    if (value < least) least = value;
    if (value > greatest) greatest = value;
  }
  if (greatest === 0) return 1e-3;
  return Math.max(least, greatest / 10 ** MOST_DECADES);
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
