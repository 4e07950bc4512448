"""Choose the constants of kl_runaway from the grid declared here: `make quality-grid` runs it.

It sees runs to tune on only: generated ones of the tuning seeds, and recorded ones of the
repositories to tune on. From the constants as they are it changes one at a time, and keeps the
change if explosions are found sooner while every limit holds. It goes through the grid until a
round changes nothing, or twice. Then it switches each mechanism off to show what that does.

It prints tables and writes bench/results/grid.json. It changes no file of klarm.
"""

from __future__ import annotations

import json
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, fields
from functools import cache
from math import exp, inf, log
from pathlib import Path
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from klarm.detectors import Detector, KLRunawayDetector
from klarm.detectors.kl_runaway import Constants
from quality import oracle, real_runs, tables
from quality.contenders import default_detectors, open_signals
from quality.generators import HEALTHY, SEEDS, generate
from quality.scoring import delay, threshold_at

RESULTS = Path(__file__).resolve().parents[1] / "results"
Candidate = Mapping[str, float]

GRID: Mapping[str, Sequence[float]] = {
    "allowance": (1.0, 1.1, 1.2),
    "patience": (4.5, 4.75, 5.0, 5.5, 6.0),
    "drift_factor": (1.7, 1.8),
    "memory_steps": (150, 200, 300),
    "take_off_steps": (20.0, 25.0, 30.0),
    "max_per_step": (2.25, 2.5, 2.75, 3.0),
    "leap": (4.0, 5.0, 7.0),
    "learn_later_steps": (16, 20, 24),
    "learn_later_part": (8, 12, 16),
    "early_weight": (2.5, 3.0, 3.5),
}
# What each mechanism is worth: its constant at a value that switches it off.
OFF: Mapping[str, float] = {
    "warmup_steps": 0,
    "take_off_steps": 1e-9,
    "max_per_step": 1e9,
    "leap": inf,
    "learn_later_steps": 0,
    "learn_later_part": 1,
    "early_weight": 1.0,
    "drift_factor": 1e9,
}
# The objective is the delay of explosions over the oracle's, as a geometric mean. The limits leave
# room to the targets, because other runs are reported than those chosen on.
MAX_HEALTHY, MIN_EXPLOSIONS, MIN_DRIFT = 0.018, 0.995, 0.93
RUNS = {HEALTHY: 1_000, "explosion": 300, "drift": 150}
ROUNDS = 2
_ORACLE_RATE = 0.025
_NOT_FOUND = 50.0  # a failure that was not found counts as one found this many times too late


@dataclass(frozen=True)
class Tried:
    """What one choice of constants does."""

    what: str
    delay: float  # over the oracle's, geometric mean
    healthy: float  # share of healthy runs with an incident
    explosions: float  # share found
    drift: float
    recorded: tuple[int, int] | None = None  # healthy runs disturbed, failing ones in time
    verdict: str = ""

    @property
    def beyond(self) -> float:
        """Return by how much the limits do not hold."""
        over = self.healthy - MAX_HEALTHY
        short = MIN_EXPLOSIONS - self.explosions, MIN_DRIFT - self.drift
        return round(sum(max(0.0, part) for part in (over, *short)), 4)

    def beats(self, other: Tried) -> bool:
        """Tell whether these constants are better."""
        return (self.beyond, round(self.delay, 3)) < (other.beyond, round(other.delay, 3))


@dataclass(frozen=True)
class Prepared:
    """A run, and everything about it that does not depend on the constants."""

    kind: str
    kl: list[float]
    onset: int | None
    others: NDArray[np.bool_]  # an incident that other detectors have opened
    oracle: NDArray[np.float64] | None


def main() -> None:
    """Search, show what was found and write it down."""
    asked = arguments()
    started = perf_counter()
    runs = prepared(asked)
    with ProcessPoolExecutor(asked.processes, initializer=_hold, initargs=(runs,)) as pool:
        search = Search(pool, runs, real_runs.recorded(asked.real_runs))
        chosen = search.run()
        without = search.without(chosen)
    tables.show_grid(search.tried, "One constant changed at a time")
    tables.show_grid(without, "Mechanisms switched off")
    changed = {name: value for name, value in chosen.items() if value != current()[name]}
    print(f"to change: {changed or 'nothing'}; {perf_counter() - started:.0f} s")
    record = {
        "grid": GRID,
        "limits": {"healthy": MAX_HEALTHY, "explosions": MIN_EXPLOSIONS, "drift": MIN_DRIFT},
        "runs": RUNS,
        "before": current(),
        "chosen": chosen,
        "tried": [asdict(row) for row in search.tried],
        "without": [asdict(row) for row in without],
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "grid.json").write_text(json.dumps(record, indent=2) + "\n")
    print(f"{RESULTS}/grid.json")


def current() -> dict[str, float]:
    """Return the constants as they are."""
    detector = KLRunawayDetector()
    return {
        name: getattr(detector.constants if name in _CONSTANTS else detector, name) for name in GRID
    }


_CONSTANTS = {field.name for field in fields(Constants)}


class Search:
    """Goes through the grid, one constant at a time."""

    def __init__(
        self, pool: ProcessPoolExecutor, runs: Sequence[Prepared], files: Sequence[Path]
    ) -> None:
        self.tried: list[Tried] = []
        self._pool = pool
        self._runs = runs
        self._files = [file for file in files if not real_runs.is_left_out(repository(file))]
        limit = threshold_at([run.oracle.max() for run in runs if _is_quiet(run)], _ORACLE_RATE)
        self._best = [
            delay(run.oracle > limit, run.onset) if run.oracle is not None and run.onset else inf
            for run in runs
        ]
        self._known: dict[tuple[float, ...], Tried] = {}

    def run(self) -> dict[str, float]:
        """Return the best constants."""
        chosen = current()
        best = self._try("as it is", chosen)
        least = self._recorded(chosen)
        best = self._note(best, least, "start")
        for number in range(ROUNDS):
            before = dict(chosen)
            for name, values in GRID.items():
                for value in values:
                    candidate = {**chosen, name: value}
                    if tuple(candidate.values()) in self._known:
                        continue
                    row = self._try(f"{name} {value:g}", candidate)
                    if not row.beats(best):
                        self._note(row, None, "")
                        continue
                    said = self._recorded(candidate)
                    if said[0] > least[0] or said[1] < least[1]:
                        self._note(row, said, "worse on recorded runs")
                        continue
                    chosen, best = candidate, self._note(row, said, f"kept, round {number + 1}")
            if chosen == before:
                break
        return chosen

    def without(self, chosen: Candidate) -> list[Tried]:
        """Return what the chosen constants do, and what happens without each mechanism."""
        rows = [self._try("as chosen", chosen)]
        for name, value in OFF.items():
            rows.append(self._try(f"no {name}", {**chosen, name: value}))
            _progress(rows[-1])
        return rows

    def _try(self, what: str, candidate: Candidate) -> Tried:
        tasks = [(number, tuple(candidate.items())) for number in range(len(self._runs))]
        outcomes = list(self._pool.map(_watch, tasks, chunksize=20))
        by_kind: dict[str, list[float]] = {kind: [] for kind in RUNS}
        ratios = []
        for run, best, outcome in zip(self._runs, self._best, outcomes, strict=True):
            by_kind[run.kind].append(outcome)
            if best < inf:
                ratios.append(min(outcome / best, _NOT_FOUND))
        row = Tried(
            what=what,
            delay=exp(float(np.mean([log(ratio) for ratio in ratios]))),
            healthy=float(np.mean(np.isfinite(by_kind[HEALTHY]))),
            explosions=float(np.mean(np.isfinite(by_kind["explosion"]))),
            drift=float(np.mean(np.isfinite(by_kind["drift"]))),
        )
        self._known[tuple(candidate.values())] = row
        return row

    def _recorded(self, candidate: Candidate) -> tuple[int, int]:
        tasks = [(file, tuple(candidate.items())) for file in self._files]
        verdicts = list(self._pool.map(_watch_recorded, tasks, chunksize=5))
        disturbed = sum(v.wanted == "no" and v.told_at_all() for v in verdicts)
        return disturbed, sum(v.wanted == "yes" and v.told_in_time() for v in verdicts)

    def _note(self, row: Tried, recorded: tuple[int, int] | None, verdict: str) -> Tried:
        row = Tried(**{**asdict(row), "recorded": recorded, "verdict": verdict})
        self.tried.append(row)
        _progress(row)
        return row


def prepared(asked: Namespace) -> list[Prepared]:
    """Make the runs, and let everything but the detector in question watch them."""
    part = 10 if asked.quick else 1
    tasks = [(kind, seed) for kind, n in RUNS.items() for seed in SEEDS["tuning"][: n // part]]
    print(f"making {len(tasks)} runs ...", file=sys.stderr, flush=True)
    with ProcessPoolExecutor(asked.processes) as pool:
        return list(pool.map(_prepare, tasks, chunksize=10))


def repository(file: Path) -> str:
    """Return where a recorded run comes from."""
    return real_runs.origin_of(file)["repo"]


def _is_quiet(run: Prepared) -> bool:
    return run.kind == HEALTHY and run.oracle is not None


def _prepare(task: tuple[str, int]) -> Prepared:
    kind, seed = task
    run = generate(kind, seed)
    kl = run.kl.tolist()
    rows = zip(run.steps.tolist(), ({"kl": value} for value in kl), strict=True)
    rest = [known for known in default_detectors() if known.name != KLRunawayDetector.name]
    others = np.array(["kl" in signals for signals in open_signals(rows, rest)])
    seen = oracle.scores(run, seed) if oracle.knows(run) else None
    return Prepared(kind, kl, run.onset, others, seen)


_runs: Sequence[Prepared] = ()


def _hold(runs: Sequence[Prepared]) -> None:
    global _runs  # noqa: PLW0603  # each process gets the runs once, not with every task
    _runs = runs


def _watch(task: tuple[int, tuple[tuple[str, float], ...]]) -> float:
    """Return after how many rows something was said: of the run if healthy, or of the failure.

    An alert of the detector opens an incident at once, so it is open when either has opened one.
    """
    number, candidate = task
    run = _runs[number]
    if run.onset is None and run.others.any():
        return 1.0
    detector = _detector(candidate)
    alarm = run.others.copy()
    for row, value in enumerate(run.kl):
        if detector.update(row, {"kl": value}) is not None:
            if run.onset is None:
                return 1.0
            alarm[row] = True
    return inf if run.onset is None else delay(alarm, run.onset)


def _watch_recorded(task: tuple[Path, tuple[tuple[str, float], ...]]) -> real_runs.Verdict:
    file, candidate = task
    tried = _detector(candidate)
    rest = [tried if known.name == tried.name else known for known in default_detectors()]
    return real_runs.watch(file, rest)


def _detector(candidate: Iterable[tuple[str, float]]) -> Detector:
    settings = {name: value for name, value in candidate if name not in _CONSTANTS}
    return _kind(tuple(pair for pair in candidate if pair[0] in _CONSTANTS))(**settings)


@cache
def _kind(constants: tuple[tuple[str, float], ...]) -> type[KLRunawayDetector]:
    return type("Tried", (KLRunawayDetector,), {"constants": Constants(**dict(constants))})


def _progress(row: Tried) -> None:
    print(
        f"{row.what:24} delay {row.delay:.3f}, healthy {100 * row.healthy:.1f} %, "
        f"drift {100 * row.drift:.0f} % {row.verdict}",
        file=sys.stderr,
        flush=True,
    )


def arguments() -> Namespace:
    """Read the command line."""
    parser = ArgumentParser(prog="make quality-grid", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the generated runs")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--real-runs", type=Path, default=real_runs.FOLDER, metavar="FOLDER")
    return parser.parse_args()


if __name__ == "__main__":
    main()
