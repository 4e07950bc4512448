/** The controls above the charts. */
import { checkExport, exportAddress } from "../../api/client";
import { asApiError } from "../../api/hooks";
import type { Run } from "../../api/types";
import { savePicture } from "../../charts/picture";
import { count } from "../../format/number";
import { sentence } from "../../parts/notice";
import { toast } from "../../parts/toast";
import { setQuery } from "../../router";
import { setAxis, setSmoothing, showAll, showLast, USUAL_SMOOTHING, type RunState } from "./state";

interface ToolbarProps {
  run: Run;
  state: RunState;
  log: boolean;
  charts: () => HTMLElement | null;
}

// Rows.
const WINDOWS = [100, 1000, 10000];

export function Toolbar({ run, state, log, charts }: ToolbarProps) {
  const { axis, zoom, last, smoothing } = state;
  const training = run.activity === "training";
  return (
    <div class="toolbar run-toolbar">
      <div class="segments" role="group" aria-label="Range">
        <button type="button" class="button small" aria-pressed={!zoom && !last} onClick={showAll}>
          Whole run
        </button>
        {WINDOWS.filter((size) => size < run.steps).map((size) => (
          <button key={size} type="button" class="button small" aria-pressed={!zoom && last === size} onClick={() => showLast(size)}>
            Last {count(size)}
          </button>
        ))}
      </div>
      <div class="segments" role="group" aria-label="Horizontal axis">
        <button type="button" class="button small" aria-pressed={axis === "step"} onClick={() => setAxis("step")}>
          Steps
        </button>
        <button type="button" class="button small" aria-pressed={axis === "time"} onClick={() => setAxis("time")}>
          Time
        </button>
      </div>
      <button type="button" class="button small" aria-pressed={log} onClick={() => setQuery({ log: log ? "0" : "1" })} title="Key: l">
        Log scale
      </button>
      <label title="Key: s">
        <span class="muted">Smoothing</span>
        <input
          type="range"
          min="0"
          max="0.99"
          step="0.01"
          value={smoothing}
          onInput={(event) => setSmoothing(Number(event.currentTarget.value))}
          onDblClick={() => setSmoothing(smoothing > 0 ? 0 : USUAL_SMOOTHING)}
        />
        <output>{smoothing > 0 ? smoothing.toFixed(2) : "off"}</output>
      </label>
      <span class="grow" />
      {zoom ? (
        <span class="follow paused" role="status">
          {training ? "Live follow is paused while zoomed" : "Zoomed"}
          <button type="button" class="button small" onClick={showAll}>
            {training ? "Resume" : "Show all"}
          </button>
        </span>
      ) : (
        training && (
          <span class="follow" role="status">
            Following live
          </span>
        )
      )}
      <details class="menu">
        <summary class="button small">Export</summary>
        <div class="menu-items">
          <a class="button small" href={exportAddress(run.id, "csv", ...stepRange(state))} download={`${run.id}.csv`}>
            CSV
          </a>
          <button type="button" class="button small" onClick={() => void saveParquet(run, state)}>
            Parquet
          </button>
          <button
            type="button"
            class="button small"
            onClick={() => {
              const root = charts();
              if (root) savePicture(root, run.name, `${run.id}.png`).catch((error: unknown) => toast(asApiError(error).message, true));
            }}
          >
            PNG
          </button>
        </div>
      </details>
    </div>
  );
}

/** The server exports a range of steps; a range of time is exported whole. */
function stepRange({ axis, zoom }: RunState): [number?, number?] {
  return axis === "step" && zoom ? [Math.ceil(zoom[0]), Math.floor(zoom[1])] : [];
}

async function saveParquet(run: Run, state: RunState): Promise<void> {
  try {
    await checkExport(run.id, "parquet", run.last_step ?? 0);
  } catch (error) {
    return toast(sentence(asApiError(error).message), true);
  }
  location.assign(exportAddress(run.id, "parquet", ...stepRange(state)));
}
