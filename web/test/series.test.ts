/** Curves: smoothing, live tails, axes, alignment. */
import { describe, expect, test } from "vitest";
import type { Series } from "../src/api/types";
import { offsetOf } from "../src/series/align";
import { decades, extent, lifted, logFloor, padded } from "../src/series/scale";
import { movingAverage, smoothed } from "../src/series/smooth";
import { nearest, stepsPerRow, withTail } from "../src/series/tail";

const series = (x: number[], y: number[], more: Partial<Series> = {}): Series => ({
  x, y, raw: true, mean_x: [], mean_y: [], count: x.length, non_finite: [], non_finite_count: 0, ...more,
});

describe("smoothing", () => {
  test("a flat line stays flat from its first value on", () => {
    expect(movingAverage([2, 2, 2], 0.9).every((value) => Math.abs(value - 2) < 1e-12)).toBe(true);
  });
  test("strength 0 leaves values as they are", () => expect(movingAverage([1, 5, 3], 0)).toEqual([1, 5, 3]));
  test("means are smoothed where values were left out", () => {
    expect(smoothed(series([1, 2], [0, 9], { raw: false, mean_x: [1.5], mean_y: [4] }), 0.5)).toEqual({ x: [1.5], y: [4] });
  });
});

describe("steps per row", () => {
  test("a log of every tenth step has ten", () => {
    expect(stepsPerRow({ steps: 300, first_step: 0, last_step: 2990 })).toBe(10);
  });
  test("a log of every step has one, and so has a single row", () => {
    expect(stepsPerRow({ steps: 300, first_step: 1, last_step: 300 })).toBe(1);
    expect(stepsPerRow({ steps: 1, first_step: 7, last_step: 7 })).toBe(1);
  });
});

describe("a live tail", () => {
  test("replaces everything from where it begins", () => {
    const merged = withTail(series([1, 2, 3], [1, 2, 3]), series([3, 4], [30, 4]), 3);
    expect([merged.x, merged.y]).toEqual([[1, 2, 3, 4], [1, 2, 30, 4]]);
  });
  test("keeps the ticks of values that are not finite", () => {
    const before = series([1], [1], { non_finite: [{ x: 2, value: "NaN" }] });
    const merged = withTail(before, series([4], [1], { non_finite: [{ x: 3, value: "Infinity" }] }), 3);
    expect(merged.non_finite.map((point) => point.x)).toEqual([2, 3]);
  });
  test("gives means to a series that has means", () => {
    const before = series([1, 2], [0, 9], { raw: false, mean_x: [1.5], mean_y: [4] });
    expect(withTail(before, series([3], [5]), 3)).toMatchObject({ raw: false, mean_x: [1.5, 3], mean_y: [4, 5] });
  });
  test("the nearest point is found", () => {
    expect(nearest([1, 5, 9], 6)).toBe(1);
    expect(nearest([1, 5, 9], 100)).toBe(2);
    expect(nearest([], 1)).toBe(-1);
  });
});

describe("scales", () => {
  test("zeros and negative values are drawn at the floor of a logarithmic axis", () => {
    const floor = logFloor([0, -1, 0.01, null, 5]);
    expect(floor).toBe(0.01);
    expect(lifted([0, -1, 5, null], floor)).toEqual([0.01, 0.01, 5, null]);
  });
  test("the first few values near zero do not stretch the axis", () => {
    expect(logFloor([1e-9, ...Array.from({ length: 99 }, () => 0.5)])).toBe(0.05);
  });
  test("a series without a positive value still has an axis", () => expect(logFloor([0, 0])).toBeGreaterThan(0));
  test("decades are whole, and at least one", () => {
    expect(decades(0.02, 0.5)).toEqual([0.01, 1]);
    expect(decades(1, 1)).toEqual([1, 10]);
  });
  test("a flat line has air around it", () => expect(padded(2, 2)).toEqual([1.8, 2.2]));
  test("nothing finite has no extent", () => expect(extent([null, Number.NaN])).toBeNull());
});

describe("alignment", () => {
  const run = { id: "a", name: "a", first_step: 1, started: 100, incident: { id: "k", step: 152, time: 1 } };
  test("a run is moved to its own start or incident", () => {
    expect([offsetOf(run, "step"), offsetOf(run, "time"), offsetOf(run, "incident")]).toEqual([0, 100, 152]);
    expect(offsetOf({ ...run, incident: null }, "incident")).toBeNull();
  });
});
