/** What the charts of a run mark. */
import { describe, expect, it } from "vitest";

import type { Incident, MetricInfo } from "../src/api/types";
import { incidentSpans } from "../src/views/run/marks";

describe("the bars of incidents", () => {
  const incident = {
    number: 1, signal: "gradient", metric: "grad_norm", subject: "learning_rate", severity: "critical",
    started: 152, started_time: 0, ended: null, ended_time: null, reason: "",
  } as unknown as Incident;
  const kl = { name: "kl", signal: "kl" } as unknown as MetricInfo;

  it("have the name that the incident has everywhere", () => {
    const [span] = incidentSpans({ alerts: [], incidents: [incident], metrics: [kl] } as never, kl, "step", true);
    expect(span?.label).toBe("1 Learning rate");
  });
});
