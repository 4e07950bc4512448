/** Settings to try, in the address and on sliders. */
import { describe, expect, test } from "vitest";
import type { Setting } from "../src/api/types";
import { sliderFor, triedAsQuery, triedIn } from "../src/series/whatif";

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
