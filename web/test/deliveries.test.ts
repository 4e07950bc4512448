/** What the page says of the messages about an incident. */
import { expect, test } from "vitest";
import { about } from "../src/views/incident/timeline";

const message = { channel: "slack", time: 1, outcome: "sent", outcome_text: "sent", attempts: 1, reason: "" };

test("a message names every event that it was about", () => {
  const events = [{ event: "opened", step: 1570 }, { event: "escalated", step: 1590 }, { event: "ended", step: null }];
  expect(about({ ...message, events })).toBe("opened, step 1\u202f570; escalated, step 1\u202f590; ended");
  expect(about({ ...message, events: events.slice(0, 1) })).toBe("opened, step 1\u202f570");
});
