/** Several runs in the same charts, and how their settings differ. */
import { useEffect, useMemo, useRef } from "preact/hooks";
import { compareAddress, listIn, overviewAddress, runAddress } from "../../address";
import { getComparison, getRunNames } from "../../api/client";
import { useChanges, useLoaded, useThrottled } from "../../api/hooks";
import type { Comparison } from "../../api/types";
import { savePicture } from "../../charts/picture";
import { LINE_COLOURS } from "../../charts/theme";
import { number } from "../../format/number";
import { useKeys } from "../../keyboard";
import { Badge } from "../../parts/badge";
import { Crumbs } from "../../parts/frame";
import { Empty, Failure, Loading } from "../../parts/notice";
import { toast } from "../../parts/toast";
import { go, setQuery } from "../../router";
import { alignmentIn, type Alignment } from "../../series/align";
import { extent } from "../../series/scale";
import { nearest } from "../../series/tail";
import { setSmoothing, showAll, stateIn, USUAL_SMOOTHING, zoomTo } from "../run/state";
import { loadCurves, type ComparedRun } from "./curves";
import { Differences } from "./differences";
import { Overlay } from "./overlay";

const ALIGNMENTS: [Alignment, string][] = [["step", "Step"], ["time", "Time since start"], ["incident", "First incident"]];
const REFRESH_MS = 1500;

export function CompareView({ query }: { query: URLSearchParams }) {
  const ids = listIn(query, "runs");
  const { data, error, reload } = useLoaded(ids.length >= 2 ? (signal) => getComparison(ids, signal) : null, [ids.join()]);
  useEffect(() => {
    document.title = "Compare runs – klarm";
  }, []);
  if (ids.length < 2) {
    return (
      <Empty>
        <p>Select two runs or more in the overview to compare them.</p>
        <a class="button" href={overviewAddress()}>
          Choose runs
        </a>
      </Empty>
    );
  }
  if (error && !data) return <Failure error={error} retry={reload} />;
  if (!data) return <Loading />;
  return <Loaded comparison={data} query={query} />;
}

function Loaded({ comparison, query }: { comparison: Comparison; query: URLSearchParams }) {
  const state = stateIn(query);
  const { zoom, smoothing } = state;
  const alignment = alignmentIn(query.get("align"));
  const metrics = useMemo(() => inUsualOrder(comparison.metrics), [comparison]);
  const metric = metrics.find((name) => name === state.metric) ?? metrics[0];
  const log = state.log ?? metric === "kl";
  const width = useMemo(() => Math.min(1300, innerWidth), []);
  const root = useRef<HTMLDivElement>(null);
  const ids = comparison.runs.map((run) => run.id);

  const curves = useLoaded(
    async (signal) => ({ alignment, runs: await loadCurves(comparison, metrics, { alignment, zoom, width }, signal) }),
    [comparison, alignment, zoom?.join()],
  );
  const refresh = useThrottled(curves.reload, REFRESH_MS);
  useChanges(null, (changes) => !zoom && changes.some((change) => ids.includes(change.run)) && refresh(), curves.reload);
  useKeys({
    l: () => setQuery({ log: log ? "0" : "1" }),
    s: () => setSmoothing(smoothing > 0 ? 0 : USUAL_SMOOTHING),
    "0": showAll,
    "/": () => go(overviewAddress()),
  });

  const runs = curves.data?.runs ?? [];
  // Until the curves are there for an alignment that was just chosen, the ones before stay.
  const drawnAs = curves.data?.alignment ?? alignment;
  const range = drawnAs === alignment && zoom ? zoom : wholeRange(runs);
  const values = useRef(new Map<string, HTMLElement>());
  const atCursor = (x: number | null) => {
    for (const run of runs) {
      const element = values.current.get(run.id);
      const series = metric ? run.curves?.[metric] : undefined;
      if (element) element.textContent = x === null || !series ? "" : number(series.y[nearest(series.x, x)]);
    }
  };
  const shared = {
    runs, axis: drawnAs === "time" ? ("seconds" as const) : ("step" as const), range, smoothing,
    atZero: drawnAs === "incident", onZoom: zoomTo, onReset: showAll,
  };
  return (
    <div class="compare" ref={root}>
      <Crumbs path={[{ text: "All runs", address: overviewAddress() }, { text: "Compare" }]} />
      <div class="run-title">
        <h1>Compare {comparison.runs.length} runs</h1>
      </div>
      <RunKeys comparison={comparison} runs={runs} values={values.current} />
      <div class="toolbar run-toolbar">
        <div class="segments" role="group" aria-label="Align by">
          {ALIGNMENTS.map(([value, text]) => (
            <button
              key={value}
              type="button"
              class="button small"
              aria-pressed={alignment === value}
              onClick={() => setQuery({ align: value === "step" ? null : value, from: null, to: null })}
            >
              {text}
            </button>
          ))}
        </div>
        <button type="button" class="button small" aria-pressed={log} onClick={() => setQuery({ log: log ? "0" : "1" })}>
          Log scale
        </button>
        <label>
          <span class="muted">Smoothing</span>
          <input type="range" min="0" max="0.99" step="0.01" value={smoothing}
            onInput={(event) => setSmoothing(Number(event.currentTarget.value))} />
          <output>{smoothing > 0 ? smoothing.toFixed(2) : "off"}</output>
        </label>
        <span class="grow" />
        {zoom && (
          <button type="button" class="button small" onClick={showAll}>
            Show all
          </button>
        )}
        <button type="button" class="button small"
          onClick={() => root.current && savePicture(root.current, "Comparison", "klarm-compare.png").catch((error: Error) => toast(error.message, true))}>
          PNG
        </button>
      </div>
      {curves.error && <Failure error={curves.error} retry={curves.reload} />}
      <div class="charts">
        <div class="card">{metric && <Overlay {...shared} metric={metric} log={log} large onCursor={atCursor} />}</div>
        <div class="small-charts">
          {metrics
            .filter((name) => name !== metric && runs.some((run) => (run.curves?.[name]?.x.length ?? 0) > 0))
            .map((name) => (
              <div class="card" key={name}>
                <Overlay {...shared} metric={name} log={name === "kl" && log} onEnlarge={() => setQuery({ metric: name })} />
              </div>
            ))}
        </div>
        <Differences comparison={comparison} />
      </div>
    </div>
  );
}

interface RunKeysProps {
  comparison: Comparison;
  runs: ComparedRun[];
  values: Map<string, HTMLElement>;
}

/** Which run has which colour, and its value under the cursor. */
function RunKeys({ comparison, runs, values }: RunKeysProps) {
  const { data } = useLoaded(getRunNames, []);
  const ids = comparison.runs.map((run) => run.id);
  return (
    <ul class="run-keys">
      {comparison.runs.map((run, colour) => {
        const health = data?.runs.find((one) => one.id === run.id)?.health;
        const missing = runs.find((one) => one.id === run.id)?.curves === null;
        return (
          <li key={run.id}>
            <span class={`swatch line-${(colour % LINE_COLOURS) + 1}${colour >= LINE_COLOURS ? " dashed" : ""}`} aria-hidden="true" />
            <a href={runAddress(run.id)}>{run.name}</a>
            {health && <Badge kind={health} />}
            {missing && <span class="muted">has no incident to align by</span>}
            <span class="value" ref={(element) => void (element ? values.set(run.id, element) : values.delete(run.id))} />
            {ids.length > 2 && (
              <button type="button" class="button small" aria-label={`Remove ${run.name}`} onClick={() => go(compareAddress(ids.filter((id) => id !== run.id)))}>
                ✕
              </button>
            )}
          </li>
        );
      })}
    </ul>
  );
}

const FIRST = ["kl", "reward", "entropy"];

function inUsualOrder(metrics: string[]): string[] {
  return [...FIRST.filter((name) => metrics.includes(name)), ...metrics.filter((name) => !FIRST.includes(name))];
}

function wholeRange(runs: ComparedRun[]): [number, number] | null {
  return extent(
    runs.flatMap((run) => Object.values(run.curves ?? {}).flatMap((series) => [series.x[0] ?? null, series.x.at(-1) ?? null])),
  );
}
