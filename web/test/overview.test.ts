/** Which runs the overview lists, and in which order. */
import { describe, expect, test } from "vitest";
import type { RunSummary } from "../src/api/types";
import { sparkPath } from "../src/charts/sparkline";
import { attention, inParts } from "../src/views/overview/headline";
import { changed, listed, sortIn } from "../src/views/overview/order";

const run = (id: string, more: Partial<RunSummary> = {}): RunSummary => ({
  id, name: id, folder: id, health: "ok", activity: "finished", worst: null,
  incidents: { total: 0, open: 0, critical: 0, warning: 0 }, steps: 1, first_step: 1, last_step: 1, rolled_back: 0,
  started: 1, last_seen: 1, framework: "trl", host: "node-1", klarm: null, damaged_lines: 0, latest: {}, not_watched: "", ...more,
});
const ids = (runs: RunSummary[]) => runs.map((one) => one.id);

describe("the order of runs", () => {
  test("the worst is first, and a run that trains before one that has ended", () => {
    const runs = [
      run("fine"), run("warned", { health: "warning" }), run("over", { health: "critical" }),
      run("burning", { health: "critical", activity: "training" }),
    ];
    expect(ids(listed(runs, "", "worst"))).toEqual(["burning", "over", "warned", "fine"]);
  });
  test("of equally bad runs, the one with more open incidents is first", () => {
    const open = (critical: number, warning: number) => ({ total: 9, open: critical + warning, critical, warning });
    const runs = [
      run("one", { health: "critical", incidents: open(1, 0), started: 9 }),
      run("one and a warning", { health: "critical", incidents: open(1, 1) }),
      run("two", { health: "critical", incidents: open(2, 0) }),
    ];
    expect(ids(listed(runs, "", "worst"))).toEqual(["two", "one and a warning", "one"]);
  });
  test("a run that logs another step keeps its place", () => {
    const runs = [run("a", { started: 2 }), run("b", { started: 1 })];
    const later = runs.map((one) => (one.id === "b" ? changed(one, { run: "b", what: ["steps"], last_seen: 99 }) : one));
    expect(ids(listed(later, "", "worst"))).toEqual(["a", "b"]);
  });
  test("names with numbers are in the order of the numbers", () => {
    expect(ids(listed([run("r10"), run("r9")], "", "name"))).toEqual(["r9", "r10"]);
  });
  test("a value that is missing or NaN is last", () => {
    const runs = [run("nan", { latest: { kl: "NaN" } }), run("low", { latest: { kl: 1 } }), run("high", { latest: { kl: 2 } })];
    expect(ids(listed(runs, "", "kl"))).toEqual(["high", "low", "nan"]);
  });
  test("an order that is not known is the usual one", () => expect(sortIn("toString")).toBe("worst"));
});

describe("the headline", () => {
  const runs = (...health: string[]) => health.map((one, at) => run(`r${at}`, { health: one }));
  test.each([
    [[], "Runs"],
    [["ok"], "No run needs attention"],
    [["critical"], "1 run needs attention"],
    [["ok", "empty", "ok"], "No run needs attention"],
    [["ok", "warning", "ok"], "1 of 3 runs needs attention"],
    [["ok", "warning", "critical"], "2 of 3 runs need attention"],
    [["warning", "critical"], "2 of 2 runs need attention"],
    [["ok", "unwatched", "unreadable"], "2 of 3 runs need attention"],
  ])("of runs that are %j is %s", (health, text) => expect(attention(runs(...health))).toBe(text));
  test("is followed by how many runs are how", () => {
    expect(inParts([])).toBe("");
    expect(inParts(runs("ok"))).toBe("1 ok");
    expect(inParts(runs("ok", "critical", "warning", "ok", "warning"))).toBe("1 critical, 2 with warnings, 2 ok");
    expect(inParts(runs("warning", "unwatched", "unreadable", "empty"))).toBe("1 with a warning, 1 unreadable, 1 not watched, 1 without data");
  });
  test("counts a state that this page does not know as it is called", () =>
    expect(inParts(runs("ok", "melting", "melting"))).toBe("2 melting, 1 ok"));
});

describe("the filter", () => {
  test("wants every word, in any field", () => {
    const runs = [run("grpo", { host: "node-7", health: "critical" }), run("ppo", { host: "node-7" })];
    expect(ids(listed(runs, "NODE-7 crit", "worst"))).toEqual(["grpo"]);
  });
  test("finds a run by what the row says that it does", () => {
    expect(ids(listed([run("a"), run("b", { activity: "detached" })], "not followed", "worst"))).toEqual(["b"]);
  });
});

describe("sparklines", () => {
  test("a gap breaks the line", () => expect(sparkPath([1, null, 2], false).match(/M/g)).toHaveLength(2));
  test("a series without a value has none", () => expect(sparkPath([null], true)).toBe(""));
  test("zeros do not break a logarithmic one", () => expect(sparkPath([0, 0.1, 1], true)).not.toContain("NaN"));
});
