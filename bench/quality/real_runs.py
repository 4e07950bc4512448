"""The recorded runs beside the project, if they are there: read in place, never copied.

All columns go through the whole monitor at its defaults, under the names klarm knows. The label of
a run says whether an engineer would have wanted an alarm, and from which step.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from klarm.metrics.catalogue import meaning, to_number
from quality.contenders import open_signals, specified
from quality.scoring import Estimate, mean_by_group, share

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "data" / "real-runs"
TUNED_ON = (
    "These recorded runs were at hand while the detectors were written: thresholds may have been "
    "chosen on them."
)

ROWS_BEFORE, ROWS_AFTER = 30, 60
_SIGMA_RULES = ("rolling", "frozen")
# Columns of the files that are not called as klarm calls them.
_COLUMNS = {"clip_ratio": "clip_fraction", "beta": "kl_coef"}


@dataclass(frozen=True)
class Verdict:
    """What was said of one recorded run, and what should have been."""

    slug: str
    repository: str
    wanted: str  # an alarm: yes, no, maybe
    onset: int | None  # row
    open_signals: list[frozenset[str]]  # by row
    alerts: dict[str, NDArray[np.bool_]]  # by row, of the specified rule in each mode

    def opened_on_kl(self) -> bool:
        """Return whether an incident on KL was ever open."""
        return any("kl" in signals for signals in self.open_signals)

    def opened_elsewhere(self) -> bool:
        """Return whether an incident on another signal was ever open."""
        return any(signals - {"kl"} for signals in self.open_signals)

    def open_at_onset(self) -> bool:
        """Return whether an incident on any signal was open around the onset."""
        return any(self.open_signals[self._around_onset()])

    def opens_at_onset(self) -> bool:
        """Return whether a signal's incident opened, and was not just open, around the onset."""
        around = self._around_onset()
        rows = range(len(self.open_signals))[around]
        before = [self.open_signals[row - 1] if row else frozenset() for row in rows]
        pairs = zip(self.open_signals[around], before, strict=True)
        return any(now - earlier for now, earlier in pairs)

    def alerted(self, mode: str) -> bool:
        """Return whether the specified rule ever alerted."""
        return bool(self.alerts[mode].any())

    def alerted_at_onset(self, mode: str) -> bool:
        """Return whether the specified rule alerted around the onset."""
        return bool(self.alerts[mode][self._around_onset()].any())

    def _around_onset(self) -> slice:
        onset = self.onset or 0
        return slice(max(0, onset - ROWS_BEFORE), onset + ROWS_AFTER + 1)


@dataclass(frozen=True)
class Rate:
    """In which share of runs something happened: by run, and as the mean over repositories."""

    what: str
    runs: int
    repositories: int
    by_run: Estimate
    by_repository: Estimate
    at_most: float | None = None  # what the issue asks for
    at_least: float | None = None


def recorded(folder: Path) -> list[Path]:
    """Return the files of the runs there are; none without the folder."""
    return sorted(folder.glob("runs/*.csv"))


def watch(path: Path) -> Verdict:
    """Run everything over one recorded run."""
    slug, folder = path.stem, path.parents[1]
    label, origin = _line(folder / "labels.csv", slug), _line(folder / "provenance.csv", slug)
    with path.open(newline="") as file:
        lines = list(csv.DictReader(file))
    names = {column: _COLUMNS.get(column, column) for column in lines[0]}
    names["kl"] = kl_name(origin)
    steps = [int(float(line["step"])) for line in lines]
    rows = [_numbers(line, names) for line in lines]
    onset = label["onset_step"] and next(
        (row for row, step in enumerate(steps) if step >= float(label["onset_step"])), None
    )
    has_kl = np.array([names["kl"] in row for row in rows])
    kl = np.array([row[names["kl"]] for row in rows if names["kl"] in row])
    alerts = {}
    for mode in _SIGMA_RULES:
        alerts[mode] = np.zeros(len(rows), dtype=bool)
        alerts[mode][has_kl] = specified(np.arange(len(kl)), kl, mode).alarm
    return Verdict(
        slug=slug,
        repository=origin["repo"],
        wanted=label["alarm_expected"],
        onset=onset if onset != "" else None,
        open_signals=list(open_signals(zip(steps, rows, strict=True))),
        alerts=alerts,
    )


def kl_name(origin: Mapping[str, str]) -> str:
    """Return the name to log the KL column under: the run's own key where klarm knows it.

    The key says what the number alone does not: `objective/kl` is summed over the sequence.
    """
    metric = "kl_old" if "old_policy" in origin["kl_kind"] else "kl"
    known = meaning(origin["kl_key"])
    return origin["kl_key"] if known and known.metric == metric else metric


def rates(verdicts: Sequence[Verdict]) -> list[Rate]:
    """Return the shares the issue sets targets for, with the specified rule beside them."""
    quiet = [verdict for verdict in verdicts if verdict.wanted == "no"]
    wanted = [verdict for verdict in verdicts if verdict.wanted == "yes"]
    return [
        _rate("no alarm wanted: open on kl", quiet, Verdict.opened_on_kl, at_most=0.04),
        *(
            _rate(f"  specified, {mode}: any alert", quiet, lambda v, m=mode: v.alerted(m))
            for mode in _SIGMA_RULES
        ),
        _rate("no alarm wanted: open elsewhere", quiet, Verdict.opened_elsewhere, at_most=0.10),
        _rate("alarm wanted: open near onset", wanted, Verdict.open_at_onset, at_least=0.85),
        _rate("  opened there, not before", wanted, Verdict.opens_at_onset),
        *(
            _rate(
                f"  specified, {mode}: any alert", wanted, lambda v, m=mode: v.alerted_at_onset(m)
            )
            for mode in _SIGMA_RULES
        ),
    ]


def mistakes(verdicts: Sequence[Verdict]) -> dict[str, list[str]]:
    """Return which runs went wrong, each with the signals that were open."""
    wrong: dict[str, list[str]] = {"open, none wanted": [], "wanted, not open near onset": []}
    for verdict in verdicts:
        signals = ", ".join(sorted(frozenset().union(*verdict.open_signals)))
        if verdict.wanted == "no" and signals:
            wrong["open, none wanted"].append(f"{verdict.slug} ({signals})")
        elif verdict.wanted == "yes" and not verdict.open_at_onset():
            elsewhere = f" (elsewhere: {signals})" if signals else ""
            wrong["wanted, not open near onset"].append(verdict.slug + elsewhere)
    return wrong


def _rate(
    what: str,
    verdicts: Sequence[Verdict],
    happened: Callable[[Verdict], bool],
    at_most: float | None = None,
    at_least: float | None = None,
) -> Rate:
    hits = [float(happened(verdict)) for verdict in verdicts]
    repositories = [verdict.repository for verdict in verdicts]
    by_run = share(int(sum(hits)), len(hits))
    by_repository = mean_by_group(hits, repositories)
    return Rate(what, len(hits), len(set(repositories)), by_run, by_repository, at_most, at_least)


def _line(file: Path, slug: str) -> dict[str, str]:
    with file.open(newline="") as lines:
        return next(line for line in csv.DictReader(lines) if line["slug"] == slug)


def _numbers(line: Mapping[str, str], names: Mapping[str, str]) -> dict[str, float]:
    numbers = {names[column]: to_number(text) for column, text in line.items() if column != "step"}
    return {name: number for name, number in numbers.items() if number is not None}
