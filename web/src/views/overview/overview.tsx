/** All runs, the worst first. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { compareAddress, incidentAddress, listIn, runAddress } from "../../address";
import type { Overview, RunSummary } from "../../api/types";
import { counted } from "../../format/number";
import { useKeys } from "../../keyboard";
import { Empty, Failure, Loading } from "../../parts/notice";
import { go, setQuery } from "../../router";
import { attention, inParts } from "./headline";
import { listed, SORTS, sortIn, type Sort } from "./order";
import { Row } from "./row";
import { useRuns } from "./runs";
import { useNarrow, useVisibleRows } from "./virtual";

const ROW_HEIGHT = 80;
const NARROW_ROW_HEIGHT = 214;
const MAX_COMPARED = 20;

export function OverviewView({ query }: { query: URLSearchParams }) {
  const { overview, runs, error, reload } = useRuns();
  const filter = query.get("q") ?? "";
  const sort = sortIn(query.get("sort"));
  const selected = listIn(query, "select");
  const shown = useMemo(() => listed(runs, filter, sort), [runs, filter, sort]);
  const [current, setCurrent] = useState<string | null>(null);
  const filterBox = useRef<HTMLInputElement>(null);
  useEffect(() => {
    const critical = runs.filter((run) => run.health === "critical").length;
    document.title = critical > 0 ? `(${critical}) klarm` : "klarm";
  }, [runs]);

  const at = shown.findIndex((run) => run.id === current);
  const move = (by: number) => {
    const next = shown[Math.min(shown.length - 1, Math.max(0, at + by))];
    if (next) setCurrent(next.id);
  };
  useKeys({
    "/": () => filterBox.current?.focus(),
    j: () => move(1),
    k: () => move(-1),
    ...(current !== null && { Enter: () => go(runAddress(current)), x: () => select(current) }),
    e: () => {
      const troubled = shown.find((run) => run.worst);
      if (troubled?.worst) go(incidentAddress(troubled.id, troubled.worst.id));
    },
  });

  if (error && !overview) return <Failure error={error} retry={reload} />;
  if (!overview) return <Loading />;
  return (
    <div class="overview">
      <Headline runs={shown} all={runs.length} overview={overview} />
      <div class="toolbar">
        <input
          ref={filterBox}
          type="search"
          placeholder="Filter: name, host, state  ( / )"
          aria-label="Filter the runs"
          value={filter}
          onInput={(event) => setQuery({ q: event.currentTarget.value || null })}
          onKeyDown={(event) => event.key === "Escape" && event.currentTarget.blur()}
        />
        <label>
          <span class="muted">Sort</span>
          <select value={sort} onChange={(event) => setQuery({ sort: event.currentTarget.value === "worst" ? null : event.currentTarget.value })}>
            {Object.entries(SORTS).map(([key, text]) => (
              <option key={key} value={key}>
                {text}
              </option>
            ))}
          </select>
        </label>
        <span class="grow" />
        {selected.length > 0 && (
          <>
            <button type="button" class="button" onClick={() => setQuery({ select: null })}>
              Clear
            </button>
            <button type="button" class="button primary" disabled={selected.length < 2} onClick={() => go(compareAddress(selected))}>
              {selected.length < 2 ? "Select another run to compare" : `Compare ${selected.length} runs`}
            </button>
          </>
        )}
      </div>
      {runs.length === 0 && !overview.indexing ? (
        <NoRuns folder={overview.folder} />
      ) : shown.length === 0 && !overview.indexing ? (
        <Empty>
          <p>No run matches “{filter}”.</p>
        </Empty>
      ) : (
        <Table runs={shown} sort={sort} current={current} selected={selected} />
      )}
    </div>
  );
}

/** How many of the listed runs need attention. */
function Headline({ runs, all, overview }: { runs: RunSummary[]; all: number; overview: Overview }) {
  return (
    <div class="headline">
      <h1>{attention(runs)}</h1>
      {runs.length > 0 && (
        <p class="muted">
          {inParts(runs)}
          {runs.length < all && ` · ${runs.length} of ${counted(all, "run")} listed`}
          {` · ${overview.folder}`}
        </p>
      )}
      {overview.indexing && (
        <p role="status" class="muted">
          {overview.indexing.total === 0
            ? "Looking for runs …"
            : `Reading journals: ${overview.indexing.done} of ${overview.indexing.total} …`}
        </p>
      )}
    </div>
  );
}

/** Add a run to those that are selected, or take it out. */
function select(id: string): void {
  const selected = listIn(new URLSearchParams(location.search), "select");
  const next = selected.includes(id) ? selected.filter((one) => one !== id) : [...selected, id].slice(-MAX_COMPARED);
  setQuery({ select: next.join(",") || null });
}

interface TableProps {
  runs: RunSummary[];
  sort: Sort;
  current: string | null;
  selected: string[];
}

const COLUMNS: [title: string, sort: Sort | null, name: string][] = [
  ["State", "worst", "state"], ["Run", "name", "name"], ["Unresolved incidents", null, "trouble"], ["Step", "step", "step"],
  ["KL", "kl", "kl"], ["Reward", "reward", "reward"], ["Entropy", "entropy", "entropy"], ["Last seen", "seen", "seen"],
];

function Table({ runs, sort, current, selected }: TableProps) {
  const height = useNarrow() ? NARROW_ROW_HEIGHT : ROW_HEIGHT;
  const { first, end, list } = useVisibleRows(runs.length, height);
  useEffect(() => {
    const at = runs.findIndex((run) => run.id === current);
    const top = list.current?.getBoundingClientRect().top;
    if (at < 0 || top === undefined) return;
    const row = top + at * height;
    if (row < 120) scrollBy(0, row - 120);
    else if (row + height > innerHeight) scrollBy(0, row + height - innerHeight + 8);
  }, [current]);
  return (
    <div role="table" aria-label="Runs" aria-rowcount={runs.length + 1} class="runs">
      <div role="rowgroup">
        <div role="row" class="run-head" aria-rowindex={1}>
          <div role="columnheader" class="cell-select">
            <span class="hidden">Select</span>
          </div>
          {COLUMNS.map(([title, by, name]) => (
            <div key={title} role="columnheader" class={`cell-${name}`} aria-sort={by === sort ? "other" : "none"}>
              {by ? (
                <button type="button" onClick={() => setQuery({ sort: by === "worst" ? null : by })}>
                  {title}
                  {by === sort && <span aria-hidden="true"> ↓</span>}
                </button>
              ) : (
                title
              )}
            </div>
          ))}
        </div>
      </div>
      <div role="rowgroup" class="run-rows" ref={list} style={{ height: `${runs.length * height}px` }}>
        {runs.slice(first, end).map((run, at) => (
          <Row
            key={run.id}
            run={run}
            index={first + at}
            top={(first + at) * height}
            current={run.id === current}
            selected={selected.includes(run.id)}
            onSelect={select}
          />
        ))}
      </div>
    </div>
  );
}

function NoRuns({ folder }: { folder: string }) {
  return (
    <Empty>
      <p>There is no run below {folder} yet. A training script with these two lines shows up here as it starts:</p>
      <pre>{'import klarm; klarm.init("my-run")\nklarm.log({"kl": kl, "reward": reward}, step=step)'}</pre>
    </Empty>
  );
}
