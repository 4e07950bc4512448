"""How good the detectors are: false alarms, recall and delay, on synthetic and on recorded runs.

`make quality` runs it: prints the tables, writes bench/results/quality.json and quality.png, and
contact sheets of the runs that were judged wrongly. A missed target is shown, it is no error.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from importlib.metadata import version
from math import isfinite
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar

from quality import framework_runs, plot, real_runs, sheets, tables
from quality.generators import FAILURES, HEALTHY, SEEDS
from quality.summary import MATCHED_RATE, Summary, watch

RESULTS = Path(__file__).resolve().parents[1] / "results"
HEALTHY_RUNS, CALIBRATION_RUNS, FAILING_RUNS = 600, 300, 150

Task = TypeVar("Task")
Done = TypeVar("Done")


def main() -> None:
    """Measure everything, show it and write it down."""
    asked = arguments()
    started = perf_counter()
    RESULTS.mkdir(exist_ok=True)
    part = 10 if asked.quick else 1
    if asked.only_real:
        show_real_runs(asked)
        return
    with ProcessPoolExecutor(asked.processes) as pool:
        results = over("synthetic runs", pool, watch, tasks(asked.seeds, part))
        healthy = seeded("calibration", HEALTHY, CALIBRATION_RUNS // part)
        calibration = over("healthy runs to set thresholds on", pool, watch, list(healthy))
        files = real_runs.recorded(asked.real_runs)
        verdicts = over("recorded runs", pool, real_runs.watch, files)
        outcomes = over("framework runs", pool, framework_runs.watch, trained(asked))
    summary = Summary(results, calibration)
    quiet, found, matched = summary.quiet(), summary.found(), summary.found_matched()
    drawn = sheets.write_generated(results, RESULTS)
    drawn += sheets.write_recorded(verdicts, files, RESULTS)
    if asked.docs_pictures:
        drawn += sheets.write_examples(results, asked.docs_pictures)
    which, verdicts = asked_for(asked, verdicts)
    real = real_runs.rates(verdicts) if verdicts else []
    by_detector = real_runs.booked(verdicts)
    in_frameworks = framework_runs.rates(outcomes) if outcomes else []
    reached = tables.targets(quiet, found, real, in_frameworks)
    plot.draw(summary, RESULTS / "quality.png")
    record = {
        "klarm": version("klarm"),
        "rlwatch": version("rlwatch"),
        "python": platform.python_version(),
        "seeds": asked.seeds,
        "quick": asked.quick,
        "seconds": round(perf_counter() - started),
        "healthy": [asdict(row) for row in quiet],
        "found_at_defaults": [asdict(row) for row in found],
        "found_at_matched_rate": [asdict(row) for row in matched],
        "recorded_runs_of_repositories": which,
        "recorded_runs": [asdict(row) for row in real],
        "recorded_runs_by_detector": [asdict(row) for row in by_detector],
        "framework_runs": [asdict(row) for row in in_frameworks],
        "targets": [{**asdict(row), "met": row.met} for row in reached],
    }
    text = json.dumps(without_infinities(record), indent=2, allow_nan=False)
    (RESULTS / "quality.json").write_text(text + "\n")
    tables.show_quiet(quiet)
    tables.show_found(found, "Failures, default thresholds")
    title = f"Failures, thresholds set to alarm on {100 * MATCHED_RATE:g} % of other healthy runs"
    tables.show_found(matched, title)
    if real:
        show_recorded(asked, which, verdicts)
    else:
        print(f"no recorded runs in {asked.real_runs}: nothing is said of them\n")
    show_trained(asked, outcomes)
    tables.show_targets(reached, asked.seeds)
    print("runs judged wrongly:", *(path.name for path in drawn))
    print(f"{perf_counter() - started:.0f} s; {RESULTS}/quality.json, quality.png")


def show_real_runs(asked: Namespace) -> None:
    """Watch the recorded runs only, and show what was said of them."""
    with ProcessPoolExecutor(asked.processes) as pool:
        files = real_runs.recorded(asked.real_runs)
        verdicts = over("recorded runs", pool, real_runs.watch, files)
        outcomes = over("framework runs", pool, framework_runs.watch, trained(asked))
    show_recorded(asked, *asked_for(asked, verdicts))
    show_trained(asked, outcomes)


def trained(asked: Namespace) -> list[dict[str, Any]]:
    """Return the runs in real frameworks that go with the seeds."""
    return framework_runs.recorded(asked.seeds)


def show_trained(asked: Namespace, outcomes: Sequence[framework_runs.Outcome]) -> None:
    """Print what was said of runs in real frameworks."""
    if outcomes:
        tables.show_trained(framework_runs.rates(outcomes))
        if asked.seeds != "reporting":
            tables.show_mistakes(framework_runs.mistakes(outcomes))
    else:
        print("no runs in real frameworks: `make framework-runs` records them\n")


def asked_for(
    asked: Namespace, verdicts: Sequence[real_runs.Verdict]
) -> tuple[str, list[real_runs.Verdict]]:
    """Return the runs of the repositories that go with the seeds, and what those are called."""
    reporting = asked.seeds == "reporting"
    kept = [v for v in verdicts if real_runs.is_left_out(v.repository) == reporting]
    return "left out" if reporting else "to tune on", kept


def show_recorded(asked: Namespace, which: str, verdicts: Sequence[real_runs.Verdict]) -> None:
    """Print what was said of recorded runs."""
    tables.show_real(real_runs.rates(verdicts), which)
    tables.show_booked(real_runs.booked(verdicts), which)
    if asked.seeds != "reporting":  # those left out are seen as a table only
        tables.show_mistakes(real_runs.mistakes(verdicts))


def arguments() -> Namespace:
    """Read the command line."""
    parser = ArgumentParser(prog="make quality", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the runs")
    parser.add_argument(
        "--seeds",
        choices=("reporting", "tuning"),
        default="reporting",
        help="tuning: look at these, and at the repositories to tune on, while a detector is being "
        "changed; quote the others",
    )
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument(
        "--only-real", action="store_true", help="only the recorded runs: half a minute"
    )
    parser.add_argument("--real-runs", type=Path, default=real_runs.FOLDER, metavar="FOLDER")
    parser.add_argument(
        "--docs-pictures",
        type=Path,
        metavar="FOLDER",
        help="also write the pictures of docs/quality.md; with tuning seeds only",
    )
    asked = parser.parse_args()
    if asked.docs_pictures and asked.seeds != "tuning":
        parser.error("--docs-pictures shows single runs: it needs --seeds tuning")
    return asked


def tasks(seeds: str, part: int) -> list[tuple[str, int]]:
    """Return the runs to make."""
    made = list(seeded(seeds, HEALTHY, HEALTHY_RUNS // part))
    for kind in FAILURES:
        made += seeded(seeds, kind, FAILING_RUNS // part)
    return made


def seeded(seeds: str, kind: str, count: int) -> Iterator[tuple[str, int]]:
    """Return this many runs of a kind, from the first seeds of a range."""
    return ((kind, seed) for seed in SEEDS[seeds][:count])


def over(
    what: str,
    pool: ProcessPoolExecutor,
    work: Callable[[Task], Done],
    over_tasks: Sequence[Task],
) -> list[Done]:
    """Do the work in all processes, and say what is being done."""
    print(f"watching {len(over_tasks)} {what} ...", file=sys.stderr, flush=True)
    return list(pool.map(work, over_tasks, chunksize=5))


def without_infinities(record: object) -> object:
    """Return a record that JSON can hold: null for what is infinite or not a number."""
    if isinstance(record, dict):
        return {key: without_infinities(value) for key, value in record.items()}
    if isinstance(record, list):
        return [without_infinities(value) for value in record]
    return None if isinstance(record, float) and not isfinite(record) else record


if __name__ == "__main__":
    main()
