/** Zooming with a finger: a drag to the side selects a range, one up or down scrolls the page. */
import type uPlot from "uplot";

export function zoomByTouch(chart: uPlot, minDrag: number, onZoom: (from: number, to: number) => void): void {
  const area = chart.over;
  // The browser keeps what goes up or down, and says so with `pointercancel`.
  area.style.touchAction = "pan-y";
  let start: number | null = null;
  const place = (event: PointerEvent) => {
    const { left, width } = area.getBoundingClientRect();
    return Math.min(Math.max(event.clientX - left, 0), width);
  };
  const show = (left: number, width: number) => chart.setSelect({ left, width, top: 0, height: width > 0 ? area.clientHeight : 0 }, false);
  area.addEventListener("pointerdown", (event) => {
    if (event.pointerType === "touch" && event.isPrimary) start = place(event);
  });
  area.addEventListener("pointermove", (event) => {
    if (event.pointerType !== "touch" || !event.isPrimary || start === null) return;
    const now = place(event);
    show(Math.min(start, now), Math.abs(now - start));
  });
  const end = (event: PointerEvent) => {
    if (event.pointerType !== "touch" || !event.isPrimary || start === null) return;
    const [left, right] = [start, place(event)].sort((a, b) => a - b) as [number, number];
    start = null;
    show(0, 0);
    if (event.type === "pointerup" && right - left >= minDrag) onZoom(chart.posToVal(left, "x"), chart.posToVal(right, "x"));
  };
  area.addEventListener("pointerup", end);
  area.addEventListener("pointercancel", end);
}
