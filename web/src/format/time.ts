/** Times and durations as people read them, in the zone of the reader. */

/** How long ago something was: "12 s ago". */
export function ago(then: number | null, now: number): string {
  if (!then) return "never";
  const seconds = now - then;
  return seconds < 5 ? "just now" : `${duration(seconds)} ago`;
}

/** A duration in its largest unit, or two of them where one is too coarse. */
export function duration(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return `${whole} s`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return minutes % 60 && hours < 10 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  const days = Math.floor(hours / 24);
  return hours % 24 && days < 5 ? `${days} d ${hours % 24} h` : `${days} d`;
}

/** A moment: the time of day, and the day where it is not today. */
export function moment(time: number | null, now: number): string {
  if (time === null) return "–";
  const date = new Date(time * 1000);
  const clock = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  const sameDay = date.toDateString() === new Date(now * 1000).toDateString();
  return sameDay ? clock : `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${clock}`;
}

/** Labels of a time axis: the time of day, and below it the day where a new one begins. */
export function clockLabels(times: number[]): string[] {
  const apart = times.length > 1 ? (times[1] as number) - (times[0] as number) : 60;
  let day = "";
  return times.map((time) => {
    const date = new Date(time * 1000);
    const today = `${two(date.getMonth() + 1)}-${two(date.getDate())}`;
    if (apart >= 86400) return `${date.getFullYear()}-${today}`;
    const clock = `${two(date.getHours())}:${two(date.getMinutes())}${apart < 60 ? `:${two(date.getSeconds())}` : ""}`;
    const label = today === day ? clock : `${clock}\n${date.getFullYear()}-${today}`;
    day = today;
    return label;
  });
}

/** The whole truth, for tooltips. */
export const utc = (time: number | null) =>
  time === null ? "" : `${new Date(time * 1000).toISOString().slice(0, 19).replace("T", " ")} UTC`;

const two = (part: number) => String(part).padStart(2, "0");
