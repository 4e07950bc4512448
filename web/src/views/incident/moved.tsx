/** The metric of the incident and what else moved, drawn below each other with one cursor. */
import { useMemo, useRef, useState } from "preact/hooks";
import { runAddress } from "../../address";
import { getBaseline, getRun, getSeries } from "../../api/client";
import { useChanges, useLoaded, useThrottled } from "../../api/hooks";
import type { Baseline, IncidentDetail, MetricInfo, Series } from "../../api/types";
import { Chart } from "../../charts/chart";
import { band, beginning, curve, spans, ticks } from "../../charts/layers";
import { heading, shown } from "../../format/names";
import { count, number } from "../../format/number";
import { Section } from "../../parts/frame";
import { sentence } from "../../parts/notice";
import { logFloor } from "../../series/scale";
import { nearest } from "../../series/tail";

const REFRESH_MS = 1000;
// Without a diagnosis, this many steps around the incident are drawn.
const STEPS_AROUND = 60;
const FEW = 3;
const MANY = 6;

export function Moved({ incident }: { incident: IncidentDetail }) {
  const { moved, metric, signal } = incident;
  const run = incident.run.id;
  const main = metric || signal;
  const from = moved?.from ?? incident.started - STEPS_AROUND;
  const to = moved?.to ?? (incident.ended ?? incident.last_step) + STEPS_AROUND;
  const [all, setAll] = useState(false);
  const info = useLoaded((abort) => getRun(run, abort), [run]);
  const others = useMemo(() => {
    const known = info.data?.metrics.map((one) => one.name) ?? [];
    const named = (moved?.metrics ?? []).filter((name) => name !== main);
    const rest = known.filter((name) => name !== main && !named.includes(name));
    // Where nothing is known to have moved, the usual suspects are better than nothing.
    return all ? [...named, ...rest] : named.length > 0 ? named.slice(0, MANY) : rest.slice(0, FEW);
  }, [info.data, moved?.metrics.join("\n"), all]);
  const names = [main, ...others];
  const query = { axis: "step" as const, from, to, width: Math.min(innerWidth, 900) };
  const series = useLoaded((abort) => getSeries(run, names, query, abort), [run, names.join("\n"), from, to]);
  const hasZ = incident.arithmetic?.z != null;
  const baseline = useLoaded(
    hasZ && incident.arithmetic ? (abort) => getBaseline(run, query, incident.arithmetic!.detector, abort) : null,
    [run, hasZ, from, to],
  );
  const refresh = useThrottled(() => (series.reload(), baseline.reload()), REFRESH_MS);
  useChanges(run, refresh, refresh);

  const range: [number, number] = [from, Math.min(to, Math.max(incident.run.last_step ?? to, incident.started + 1))];
  const hidden = (info.data?.metrics.length ?? 0) - names.length;
  return (
    <Section
      title="What moved"
      aside={
        <a class="button small" href={runAddress(run, `?from=${from}&to=${range[1]}`)}>
          Open in the run's charts
        </a>
      }
    >
      {moved?.text && (
        <p>
          When it {moved.event} at step {count(moved.step)}, in order: {sentence(moved.text, false)}
        </p>
      )}
      <div class="aligned">
        {names.map((name) => {
          const its = series.data?.[name];
          const described = info.data?.metrics.find((one) => one.name === name);
          return its ? (
            <Aligned key={name} name={name} series={its} info={described} incident={incident} range={range} main={name === main}
              baseline={name === baseline.data?.metric ? baseline.data : null} />
          ) : null;
        })}
      </div>
      {(hidden > 0 || all) && (
        <button type="button" class="button small" aria-expanded={all} onClick={() => setAll(!all)}>
          {all ? "Show fewer metrics" : `Show ${hidden} other metrics`}
        </button>
      )}
    </Section>
  );
}

interface AlignedProps {
  name: string;
  series: Series;
  info: MetricInfo | undefined;
  incident: IncidentDetail;
  range: [number, number];
  main: boolean;
  baseline: Baseline | null;
}

function Aligned({ name, series, info, incident, range, main, baseline }: AlignedProps) {
  const readout = useRef<HTMLSpanElement>(null);
  const positive = series.y.every((value) => value >= 0);
  const log = info?.signal === "kl" && positive;
  const floor = log ? logFloor(series.y) : 0;
  const title = info?.meaning ? heading(name) : name;
  const resting = series.y.length > 0 ? `${number(series.y[0])} → ${number(series.y.at(-1))}` : "no value here";
  const severity = main ? incident.severity : "neutral";
  const { out_of_range_from: early, moved } = incident;
  const under = [spans([[{ from: incident.started, to: incident.ended, severity, label: main ? "first alert" : "", shaded: true }]])];
  if (early !== null) under.push(beginning(early, main ? "out of range" : ""));
  // The text describes what had moved by this step, which is drawn unless it is the opening.
  if (moved && moved.step !== incident.opened) under.push(beginning(moved.step, main ? moved.event : ""));
  if (baseline) {
    const edge = (sign: number) => baseline.mean.map((mean, at) => (mean === null || baseline.std[at] == null ? null : mean + sign * baseline.std[at]));
    under.push(
      band(baseline.x, edge(-1), edge(1), floor),
      curve(baseline.x, baseline.warning, (theme) => theme.warning, floor, [5, 4]),
      curve(baseline.x, baseline.critical, (theme) => theme.critical, floor, [5, 4]),
    );
  }
  return (
    <figure class="metric" data-name={title} data-metric={name}>
      <figcaption>
        <h3 class="metric-name">{title}</h3>
        <span class="readout" ref={readout}>
          {resting}
        </span>
      </figcaption>
      <Chart
        label={`${shown(name)} around the incident: ${resting}`}
        height={main ? 200 : 104}
        lines={[{ x: series.x, y: series.y, colour: (theme) => theme.raw }]}
        axis="step"
        range={range}
        log={log}
        lanes={main ? 1 : 0}
        under={under}
        over={[ticks(series.non_finite.map((point) => point.x))]}
        syncKey="incident"
        compact
        onCursor={(x) => {
          if (!readout.current) return;
          const at = x === null ? -1 : nearest(series.x, x);
          readout.current.textContent = at < 0 ? resting : `step ${count(series.x[at])} · ${number(series.y[at], 4)}`;
        }}
      />
    </figure>
  );
}
