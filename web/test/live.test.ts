/** The live connection. */
import { describe, expect, test } from "vitest";
import { Live } from "../src/api/live";

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
