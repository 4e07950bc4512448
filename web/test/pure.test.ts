/** The functions that hold no state: addresses, numbers, times, smoothing, live tails, scales. */
import { describe, expect, test } from "vitest";
import { listIn, numberIn, parseAddress, runAddress, withQuery } from "../src/address";
import { metricParameter } from "../src/api/client";
import { Live } from "../src/api/live";
import type { Series, Setting } from "../src/api/types";
import { tone, urgency } from "../src/format/names";
import { count, number, timesBefore } from "../src/format/number";
import { ago, duration } from "../src/format/time";
import { offsetOf } from "../src/series/align";
import { decades, extent, lifted, logFloor, padded } from "../src/series/scale";
import { movingAverage, smoothed } from "../src/series/smooth";
import { nearest, withTail } from "../src/series/tail";
import { sliderFor, triedAsQuery, triedIn } from "../src/series/whatif";

const series = (x: number[], y: number[], more: Partial<Series> = {}): Series => ({
  x, y, raw: true, mean_x: [], mean_y: [], count: x.length, non_finite: [], non_finite_count: 0, ...more,
});

describe("addresses", () => {
  test("every view has one", () => {
    expect(parseAddress("/", "").view).toBe("overview");
    expect(parseAddress("/runs/grpo-7b", "?from=3")).toMatchObject({ view: "run", run: "grpo-7b" });
    expect(parseAddress("/runs/a/incidents/kq7x", "")).toMatchObject({ view: "incident", run: "a", incident: "kq7x" });
    expect(parseAddress("/incidents/kq7x", "")).toMatchObject({ view: "incident", run: null, incident: "kq7x" });
    expect(parseAddress("/runs/a/what-if", "").view).toBe("what-if");
    expect(parseAddress("/compare", "?runs=a,b").view).toBe("compare");
  });
  test("an address that leads nowhere says so", () => {
    expect(parseAddress("/nowhere", "").view).toBe("unknown");
    expect(parseAddress("/runs/a/b/c/d", "").view).toBe("unknown");
    expect(parseAddress("/runs/%E0%A4%A", "").run).toBe("%E0%A4%A");
  });
  test("a run's id survives its address", () => {
    expect(parseAddress(runAddress("a~b.c-d"), "").run).toBe("a~b.c-d");
  });
  test("values are set and removed, the others stay", () => {
    const query = new URLSearchParams("from=1&to=9&runs=a,b");
    expect(withQuery(query, { from: null, log: "0" })).toBe("?to=9&runs=a,b&log=0");
    expect(withQuery(new URLSearchParams(), { from: null })).toBe("");
  });
  test("what is no number is left out", () => {
    expect(numberIn(new URLSearchParams("from=12.5"), "from")).toBe(12.5);
    expect(numberIn(new URLSearchParams("from=abc"), "from")).toBeUndefined();
    expect(numberIn(new URLSearchParams("from="), "from")).toBeUndefined();
  });
  test("a list has no empty and no repeated names", () => {
    expect(listIn(new URLSearchParams("runs=a,,b,a"), "runs")).toEqual(["a", "b"]);
  });
  test("a comma within a metric's name is escaped twice", () => {
    expect(metricParameter("a,b")).toBe("a%252Cb");
    expect(metricParameter("train/x")).toBe("train%2Fx");
  });
});

describe("numbers", () => {
  test.each([
    [0.5449, "0.545"], [999.6, "1000"], [1234.5, "1235"], [6.02e23, "6.02e23"], [Number.NaN, "NaN"], [0, "0"],
    [-0.00001234, "-1.23e-5"], [12.345, "12.3"], ["NaN", "NaN"], [null, "–"], [-Infinity, "-Infinity"],
  ])("%s is shown as %s", (value, text) => expect(number(value)).toBe(text));
  test("counts are grouped", () => expect(count(1234567)).toBe("1\u202f234\u202f567"));
  test("a proportion is said in words where it has a meaning", () => {
    expect(timesBefore(0.31, 0.011)).toBe("28 times its level before");
    expect(timesBefore(0.02, 0.2)).toBe("10 % of its level before");
    expect(timesBefore("NaN", 0.2)).toBe("");
    expect(timesBefore(-1, 0.2)).toBe("");
  });
});

describe("times", () => {
  test.each([[3, "3 s"], [61, "1 min"], [3 * 3600 + 120, "3 h 2 min"], [50 * 3600, "2 d 2 h"]])(
    "%s seconds are %s", (seconds, text) => expect(duration(seconds)).toBe(text));
  test("a clock that is a little behind shows no negative time", () => expect(ago(105, 100)).toBe("just now"));
});

describe("kinds that the page does not know", () => {
  test("are neutral, and come before runs that are fine", () => {
    expect(tone("melting")).toBe("neutral");
    expect(["ok", "melting", "critical", "warning"].sort((a, b) => urgency(a) - urgency(b)))
      .toEqual(["critical", "warning", "melting", "ok"]);
  });
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

describe("what if", () => {
  const setting = (more: Partial<Setting>): Setting => ({
    name: "s", kind: "float", default: 3, meaning: "", above: 0, at_least: null, choices: [], ...more,
  });
  const sections = [{ name: "kl_explosion", signal: "kl", metrics: ["kl"], about: "", settings: [setting({ name: "sigma" })] }];
  test("settings live in the address, with their types", () => {
    const query = triedAsQuery(new URLSearchParams("detector=x"), { kl_explosion: { sigma: 4.5 } });
    expect(triedIn(new URLSearchParams(query), sections)).toEqual({ kl_explosion: { sigma: 4.5 } });
  });
  test("a value the page cannot read goes to the server as it is", () => {
    expect(triedIn(new URLSearchParams("set=kl_explosion.sigma:many"), sections)).toEqual({ kl_explosion: { sigma: "many" } });
  });
  test("a slider never offers what is not allowed", () => {
    expect(sliderFor(setting({}), 3)).toEqual({ min: 0.6, max: 15, step: 0.1 });
    expect(sliderFor(setting({ kind: "int", default: 100, at_least: 30, above: null }), 100)).toEqual({ min: 30, max: 500, step: 1 });
    expect(sliderFor(setting({ kind: "int", default: 0, at_least: 0, above: null }), 0).min).toBe(0);
  });
});

describe("the live connection", () => {
  test("an answer older than what it remembers has to be read again", () => {
    const live = new Live();
    expect(live.since(5)).toEqual([]);
    Object.assign(live, { completeSince: 10, remembered: [{ cursor: 11, changes: [{ run: "a", what: ["steps"] }] }] });
    expect(live.since(9)).toBeNull();
    expect(live.since(10)).toHaveLength(1);
    expect(live.since(11)).toEqual([]);
  });
});
