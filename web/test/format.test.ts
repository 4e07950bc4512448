/** Numbers, times and names as people read them. */
import { describe, expect, test } from "vitest";
import { subject, tone, urgency } from "../src/format/names";
import { count, number, timesBefore } from "../src/format/number";
import { ago, clockLabels, duration } from "../src/format/time";

describe("numbers", () => {
  test.each([
    [0.5449, "0.545"], [999.6, "1000"], [1234.5, "1235"], [6.02e23, "6.02e23"], [Number.NaN, "NaN"], [0, "0"],
    [-0.00001234, "-1.23e-5"], [12.345, "12.3"], ["NaN", "NaN"], [null, "–"], [-Infinity, "-Infinity"],
  ])("%s is shown as %s", (value, text) => expect(number(value)).toBe(text));
  test("counts are grouped", () => expect(count(1234567)).toBe("1\u202f234\u202f567"));
  test("a proportion is said in words where it has a meaning", () => {
    expect(timesBefore(0.31, 0.011)).toBe("28 times its earlier level");
    expect(timesBefore(0.02, 0.2)).toBe("10 % of its earlier level");
    expect(timesBefore("NaN", 0.2)).toBe("");
    expect(timesBefore(-1, 0.2)).toBe("");
  });
});

describe("times", () => {
  test.each([[3, "3 s"], [61, "1 min"], [3 * 3600 + 120, "3 h 2 min"], [50 * 3600, "2 d 2 h"]])(
    "%s seconds are %s", (seconds, text) => expect(duration(seconds)).toBe(text));
  test("an axis names the day where one begins", () => {
    const noon = new Date(2026, 10, 17, 12).getTime() / 1000;
    expect(clockLabels([noon, noon + 3600, noon + 86400])).toEqual(["12:00\n2026-11-17", "13:00", "12:00\n2026-11-18"]);
    expect(clockLabels([noon, noon + 30])[1]).toBe("12:00:30");
  });
  test("a clock that is a little behind shows no negative time", () => expect(ago(105, 100)).toBe("just now"));
});

describe("kinds that the page does not know", () => {
  test("are neutral, and come before runs that are fine", () => {
    expect(tone("melting")).toBe("neutral");
    expect(["ok", "melting", "critical", "warning"].sort((a, b) => urgency(a) - urgency(b)))
      .toEqual(["critical", "warning", "melting", "ok"]);
  });
});

test("an incident is named by its metric, else by its signal", () => {
  expect(subject({ metric: "learning_rate", signal: "gradient" })).toBe("Learning rate");
  expect(subject({ metric: "", signal: "kl" })).toBe("KL");
  expect(subject({ subject: "learning_rate", metric: "grad_norm", signal: "gradient" })).toBe("Learning rate");
});
