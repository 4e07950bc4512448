"""The recorded runs beside the project, if they are there: read in place, never copied.

All columns go through the whole monitor at its defaults, under the names klarm knows. The label of
a run says whether an engineer would have wanted an alarm, and from which step.

Repositories are split once, by the hash of their name. Detectors may be chosen on 60 % of them;
the others are left out and seen only as a table.
"""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from klarm.detectors import Detector
from klarm.metrics.key_meaning import meaning
from klarm.metrics.numbers import to_number
from quality.contenders import Notification, notified, specified
from quality.scoring import Estimate, bootstrap, mean_by_group, share

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "data" / "real-runs"

ROWS_BEFORE, ROWS_AFTER = 30, 60
_TUNING_SHARE = 60  # of 100 repositories
_SIGMA_RULES = ("rolling", "frozen")
# Columns of the files that are not called as klarm calls them.
_COLUMNS = {"clip_ratio": "clip_fraction", "beta": "kl_coef"}
# Logs of control tasks, whose `length` is that of an episode. A callback would not log it as the
# length of completions.
_CONTROL = ("sb3", "spinningup")
_CONTROL_KEY = "train/approx_kl"


@dataclass(frozen=True)
class Verdict:
    """What was said of one recorded run, and what should have been."""

    slug: str
    repository: str
    wanted: str  # an alarm: yes, no, maybe
    onset: int | None  # row
    rows: int
    notifications: list[Notification]  # what people would have been notified of
    alerts: dict[str, NDArray[np.bool_]]  # by row, of the specified rule in each mode

    def told_on_kl(self) -> bool:
        """Return whether people were notified of an incident on KL."""
        return any(notification.signal == "kl" for notification in self.notifications)

    def told_at_all(self) -> bool:
        """Return whether people were notified of anything."""
        return bool(self.notifications)

    def told_critical(self) -> bool:
        """Return whether people were woken."""
        return any(notification.severity == "critical" for notification in self.notifications)

    def told_in_time(self) -> bool:
        """Return whether people were notified around the onset."""
        return bool(self.around_onset())

    def around_onset(self) -> list[Notification]:
        """Return what people were notified of around the onset."""
        rows = self._window()
        return [notification for notification in self.notifications if notification.row in rows]

    def alerted(self, mode: str) -> bool:
        """Return whether the specified rule ever alerted."""
        return bool(self.alerts[mode].any())

    def alerted_in_time(self, mode: str) -> bool:
        """Return whether the specified rule alerted around the onset."""
        rows = self._window()
        return bool(self.alerts[mode][rows.start : rows.stop].any())

    def _window(self) -> range:
        onset = self.onset or 0
        return range(max(0, onset - ROWS_BEFORE), onset + ROWS_AFTER + 1)


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
    unit: str = "%"


@dataclass(frozen=True)
class Booked:
    """What is booked to one detector: the runs in which people were notified with its words."""

    detector: str
    true: int  # failing runs, in time
    alone: int  # of them, with no other detector in time
    false: int  # healthy runs
    false_critical: int
    maybe: int


def recorded(folder: Path) -> list[Path]:
    """Return the files of the runs there are; none without the folder."""
    return sorted(folder.glob("runs/*.csv"))


def is_left_out(repository: str) -> bool:
    """Tell whether a repository is for reporting alone: fixed, whatever runs are added."""
    return int(hashlib.sha256(repository.encode()).hexdigest(), 16) % 100 >= _TUNING_SHARE


def watch(path: Path, detectors: list[Detector] | None = None) -> Verdict:
    """Run everything over one recorded run, by default with the detectors as they come."""
    slug, folder = path.stem, path.parents[1]
    label, origin = _line(folder / "labels.csv", slug), origin_of(path)
    steps_and_rows = rows_of(path)
    steps, rows = [step for step, _ in steps_and_rows], [row for _, row in steps_and_rows]
    onset = None
    if label["onset_step"]:
        first = float(label["onset_step"])
        onset = next((row for row, step in enumerate(steps) if step >= first), None)
    name = kl_name(origin)
    has_kl = np.array([name in row for row in rows])
    kl = np.array([row[name] for row in rows if name in row])
    alerts = {}
    for mode in _SIGMA_RULES:
        alerts[mode] = np.zeros(len(rows), dtype=bool)
        alerts[mode][has_kl] = specified(np.arange(len(kl)), kl, mode).alarm
    return Verdict(
        slug=slug,
        repository=origin["repo"],
        wanted=label["alarm_expected"],
        onset=onset,
        rows=len(rows),
        notifications=notified(steps_and_rows, detectors=detectors),
        alerts=alerts,
    )


def rows_of(path: Path) -> list[tuple[int, dict[str, float]]]:
    """Return the steps and values of a recorded run, under the names klarm knows."""
    origin = origin_of(path)
    with path.open(newline="") as file:
        lines = list(csv.DictReader(file))
    names = {column: _COLUMNS.get(column, column) for column in lines[0]}
    names["kl"] = kl_name(origin)
    if _is_control(origin):
        names.pop("length", None)
    return [(int(float(line["step"])), _numbers(line, names)) for line in lines]


def origin_of(path: Path) -> dict[str, str]:
    """Return where a recorded run comes from."""
    return _line(path.parents[1] / "provenance.csv", path.stem)


def kl_of(path: Path) -> NDArray[np.float64]:
    """Return KL by row, NaN where there is none."""
    with path.open(newline="") as file:
        numbers = [to_number(line["kl"]) for line in csv.DictReader(file)]
    return np.array([np.nan if number is None else number for number in numbers])


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
    maybe = [verdict for verdict in verdicts if verdict.wanted == "maybe"]
    return [
        _rate("no alarm wanted: incident on kl", quiet, Verdict.told_on_kl, at_most=0.03),
        _rate("no alarm wanted: any incident", quiet, Verdict.told_at_all, at_most=0.08),
        _rate("no alarm wanted: a critical one", quiet, Verdict.told_critical, at_most=0.03),
        _mean(
            "no alarm wanted: messages per run", quiet, lambda v: len(v.notifications), at_most=0.15
        ),
        *(
            _rate(f"  specified, {mode}: any alert", quiet, lambda v, m=mode: v.alerted(m))
            for mode in _SIGMA_RULES
        ),
        _rate("alarm wanted: notified in time", wanted, Verdict.told_in_time, at_least=0.90),
        *(
            _rate(f"  specified, {mode}: any alert", wanted, lambda v, m=mode: v.alerted_in_time(m))
            for mode in _SIGMA_RULES
        ),
        _rate("maybe wanted: any incident", maybe, Verdict.told_at_all),
    ]


def booked(verdicts: Iterable[Verdict]) -> list[Booked]:
    """Return what each detector is right and wrong about, the most useful first."""
    counts: dict[str, dict[str, int]] = {}

    def count(detector: str, what: str) -> None:
        counts.setdefault(detector, dict.fromkeys(("t", "a", "f", "c", "m"), 0))[what] += 1

    for verdict in verdicts:
        if verdict.wanted == "yes":
            right = {notification.detector for notification in verdict.around_onset()}
            for detector in right:
                count(detector, "t")
                if len(right) == 1:
                    count(detector, "a")
        else:
            for detector in {notification.detector for notification in verdict.notifications}:
                count(detector, "f" if verdict.wanted == "no" else "m")
            if verdict.wanted == "no":
                woke = {
                    notification.detector
                    for notification in verdict.notifications
                    if notification.severity == "critical"
                }
                for detector in woke:
                    count(detector, "c")
    rows = [
        Booked(detector, found["t"], found["a"], found["f"], found["c"], found["m"])
        for detector, found in counts.items()
    ]
    return sorted(rows, key=lambda row: (-row.true, row.false, row.detector))


def mistakes(verdicts: Iterable[Verdict]) -> dict[str, list[str]]:
    """Return which runs went wrong, each with what was said. For runs to tune on only."""
    wrong: dict[str, list[str]] = {"notified, none wanted": [], "wanted, not notified in time": []}
    for verdict in verdicts:
        said = ", ".join(
            f"{notification.detector} {notification.severity} at row {notification.row}"
            for notification in verdict.notifications
        )
        if verdict.wanted == "no" and said:
            wrong["notified, none wanted"].append(f"{verdict.slug} ({said})")
        elif verdict.wanted == "yes" and not verdict.told_in_time():
            where = f"onset {verdict.onset}" + (f"; {said}" if said else "")
            wrong["wanted, not notified in time"].append(f"{verdict.slug} ({where})")
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


def _mean(
    what: str,
    verdicts: Sequence[Verdict],
    number: Callable[[Verdict], int],
    at_most: float | None = None,
) -> Rate:
    numbers = [float(number(verdict)) for verdict in verdicts]
    repositories = [verdict.repository for verdict in verdicts]
    by_run, by_repository = bootstrap(numbers, np.mean), mean_by_group(numbers, repositories)
    groups = len(set(repositories))
    return Rate(what, len(numbers), groups, by_run, by_repository, at_most, unit="")


def _is_control(origin: Mapping[str, str]) -> bool:
    kind = origin["source_kind"]
    return any(name in kind for name in _CONTROL) or origin["kl_key"] == _CONTROL_KEY


def _line(file: Path, slug: str) -> dict[str, str]:
    with file.open(newline="") as lines:
        return next(line for line in csv.DictReader(lines) if line["slug"] == slug)


def _numbers(line: Mapping[str, str], names: Mapping[str, str]) -> dict[str, float]:
    numbers = {name: to_number(line[column]) for column, name in names.items() if column != "step"}
    return {name: number for name, number in numbers.items() if number is not None}
