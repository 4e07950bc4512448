/** A small curve without axes, for a row of the overview. */
import { extent } from "../series/scale";

const WIDTH = 96;
const HEIGHT = 28;

interface SparklineProps {
  values: (number | null)[] | undefined;
  log?: boolean;
  /** What it shows and its latest value, for screen readers. */
  label: string;
}

export function Sparkline({ values, log = false, label }: SparklineProps) {
  const path = values ? sparkPath(values, log) : "";
  if (!path) return <span class="spark spark-empty" aria-label={`${label}: not logged`} role="img" />;
  return (
    <svg class="spark" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={label}>
      <path d={path} />
    </svg>
  );
}

/** The path of a sparkline; values that are missing break it. */
export function sparkPath(values: (number | null)[], log: boolean): string {
  const least = Math.min(...values.filter((value): value is number => value !== null && value > 0));
  const drawn = values.map((value) =>
    value === null ? null : log && Number.isFinite(least) ? Math.log10(Math.max(value, least)) : value,
  );
  const range = extent(drawn);
  if (!range) return "";
  const [low, high] = range;
  const across = (WIDTH - 2) / Math.max(1, values.length - 1);
  let path = "";
  let pen = false;
  drawn.forEach((value, at) => {
    if (value === null) {
      pen = false;
      return;
    }
    const y = high === low ? HEIGHT / 2 : HEIGHT - 2 - ((value - low) / (high - low)) * (HEIGHT - 4);
    const here = `${(1 + at * across).toFixed(1)} ${y.toFixed(1)}`;
    // A value with a gap on both sides is a point: a line of no length with round ends.
    path += pen ? `L${here}` : `M${here}h0`;
    pen = true;
  });
  return path;
}
