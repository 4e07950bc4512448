/** Addresses lead to views and hold their state. */
import { describe, expect, test } from "vitest";
import { listIn, numberIn, parseAddress, runAddress, withQuery } from "../src/address";
import { metricParameter } from "../src/api/client";

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
