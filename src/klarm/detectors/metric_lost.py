"""Metric lost: a metric is no longer logged, or is stuck at one value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import inf
from operator import eq, itemgetter
from typing import ClassVar, Literal

from klarm.detectors.base import Detector
from klarm.metrics import METRICS, Kind
from klarm.settings import setting
from klarm.text import number
from klarm.types import Alert, Severity

# Metrics that never repeat a value, because of their noise. Others, such as a learning rate or a
# share, often stay the same for a long time in a healthy run.
_NEVER_CONSTANT = ("kl", "entropy", "reward", "loss", "grad_norm")
# The dip test has no p-value if all rewards are equal, other losses are only named when they are
# not finite, and the probe measures as often as its cost allows: these may be missing. So may
# metrics that no detector judges.
_KNOWN = {
    name for name, metric in METRICS.items() if not (metric.by_probe or metric.only_shown)
} - {"reward_dip_p", "other_loss"}
# A policy loss is close to 0 and logs are rounded, so a loss that stays at 0 is normal.
_ZERO_IS_NORMAL = "loss"
_ROUNDED_AWAY = 1e-3  # a loss below this, printed with four decimals, looks constant
_KL = "kl"
# A reward that stays at its highest value is saturated, not stuck.
_BEST_IS_NORMAL = "reward"
# A log that fills values forward repeats them all the time, so a value is stuck only if it lasts
# this many times as long as any earlier value.
_HOLDS = 10
# A metric with gaps is lost if it is missing for this many times its longest gap.
_GAPS = 3
_NEVER = 2**62


@dataclass(kw_only=True, eq=False)
class MetricLostDetector(Detector):
    """Warns when a metric has been missing, or stuck at one exact value, for `missing_steps`.

    Only logged steps count. A metric that is logged in every n-th row is reported after three of
    its longest gaps at the earliest. A metric that has been 0 from the start is not measured, which
    is not the same as stuck.
    """

    name: ClassVar[str] = "metric_lost"
    signal: ClassVar[str] = "liveness"
    watches: ClassVar[tuple[str, ...]] = tuple(METRICS)
    recovery: ClassVar[Literal["level", "size", "quiet"]] = "quiet"
    watches_all: ClassVar[bool] = True
    counts_held_values: ClassVar[bool] = True
    measures: ClassVar[str] = "steps"
    recommendations: ClassVar[Mapping[Severity, str]] = {
        "warning": (
            "Check that the trainer still computes and logs it: until it is back, the detectors "
            "that use it see nothing. A value that is stuck can also mean that the policy no "
            "longer changes."
        ),
    }

    warmup_steps: int = setting(
        5, "number of times a metric must have been logged before it can be missed", at_least=0
    )
    missing_steps: int = setting(
        50, "warning when a metric is missing or stuck for this many rows", at_least=2
    )

    def __post_init__(self) -> None:
        """Prepare to watch. What kind of KL there is stays known when the rest is forgotten."""
        self._kl_is_floored = False
        super().__post_init__()

    def bound(self, key: str, kind: Kind | None) -> None:
        """Note the kind of the KL, which is the first metric that this detector watches."""
        super().bound(key, kind)
        self._kl_is_floored = kind is not None and kind.floored

    def _start(self) -> None:
        self._steps = 0
        self._step: int | None = None  # it may come in several dicts
        self._traces: dict[str, _Trace] = {}
        # Of the metrics that never repeat a value: those in the last row, their values, and how
        # long each has been the same.
        self._watched: tuple[str, ...] = ()
        self._values: tuple[float | None, ...] = ()
        self._last: dict[str, float | None] = {}  # values of those that it did not have
        self._holds: dict[str, _Hold] = {}
        self._holding: set[str] = set()  # those whose current value may have been repeated
        self._best = -inf  # the highest reward before its current value
        self._reward_at = -1  # its index in `_watched`
        # Most rows have the same metrics as the one before. They are only counted until the traces
        # are needed or a row is different.
        self._names: tuple[str, ...] = ()  # the names in the last row
        self._uncounted = 0  # rows like it that are not in the traces yet
        self._due = 0  # nothing can be lost before this many steps

    def looks_at(self, metrics: Mapping[str, object]) -> bool:  # noqa: ARG002
        """Return True: it also judges a step in which a metric is missing."""
        return True

    def update(self, step: int, metrics: Mapping[str, float]) -> Alert | None:
        """Learn from one step; return an alert if something is missing or stuck."""
        is_new = step != self._step
        if is_new:
            self._step = step
            self._steps += 1
        names = tuple(metrics)
        if names == self._names:
            self._uncounted += 1
        else:
            self._count(self._steps - is_new)  # up to the row before
            self._trace(names)
            self._watch(names)
        last = self._values
        values = self._values = _reader(self._watched)(metrics)
        stuck: Sequence[str] = ()
        if self._holding or any(map(eq, values, last)):  # rarely
            stuck = self._stuck(values, last)
        elif self._reward_at >= 0:
            reward = last[self._reward_at]
            if reward is not None and reward > self._best:
                self._best = reward
        lost = self._lost() if is_new and self._steps >= self._due else ()
        self.score = 0.0
        return self._say(step, lost, stuck) if lost or stuck else None

    def _watch(self, names: tuple[str, ...]) -> None:
        """Note the names in the rows from now on."""
        self._names = names
        # A name that has disappeared is not lost before this.
        self._due = min(self._due, self._steps + self.missing_steps - 1)
        self._last.update(zip(self._watched, self._values, strict=True))
        self._watched = tuple(name for name in _NEVER_CONSTANT if name in names)
        self._values = tuple(map(self._last.get, self._watched))
        self._reward_at = (
            self._watched.index(_BEST_IS_NORMAL) if _BEST_IS_NORMAL in self._watched else -1
        )
        self._holding.update(name for name in self._watched if name not in self._holds)

    def _trace(self, metrics: Iterable[str]) -> None:
        """Note that these metrics were logged at this step."""
        now = self._steps
        for name in metrics:
            trace = self._traces.get(name)
            if trace is None:
                if name in _KNOWN:
                    self._traces[name] = _Trace(now, self.missing_steps)
                continue
            trace.times += 1
            if now - trace.last > 1:
                trace.limit = max(trace.limit, _GAPS * (now - trace.last))
            trace.last = now

    def _count(self, until: int) -> None:
        """Add the rows that were only counted to the traces; the last of them is this step."""
        if self._uncounted:
            for name in self._traces.keys() & self._names:
                self._traces[name].times += self._uncounted
                self._traces[name].last = until
            self._uncounted = 0

    def _stuck(self, values: Iterable[float], last: Iterable[float | None]) -> list[str]:
        """Compare with the previous values; return the metrics that are stuck."""
        stuck: list[str] = []
        for name, value, before in zip(self._watched, values, last, strict=True):
            if value != before:
                if before is None:
                    self._holds[name] = _Hold(measured=value != 0.0)
                    self._holding.add(name)
                elif name in self._holding:
                    self._holding.remove(name)
                    self._holds[name].end()
                if name == _BEST_IS_NORMAL and before is not None and before > self._best:
                    self._best = before
            else:
                hold = self._holds[name]
                hold.same += 1
                self._holding.add(name)
                if hold.same >= self.missing_steps and self._is_stuck(name, value, hold):
                    stuck.append(name)
        return stuck

    def _is_stuck(self, name: str, value: float, hold: _Hold) -> bool:
        if not hold.measured:
            return False
        if name == _ZERO_IS_NORMAL and abs(value) < _ROUNDED_AWAY:
            return False
        if name == _KL and value == 0.0 and self._kl_is_floored:
            return False
        if name == _BEST_IS_NORMAL and value >= self._best:
            return False  # at its highest value: saturated, not stuck
        return hold.same >= _HOLDS * hold.longest

    def _lost(self) -> list[str]:
        """Return the lost metrics, and set when the next one may be lost."""
        self._count(self._steps)
        traces = self._traces
        absent = traces.keys() - self._names
        self._due = min((traces[name].last + traces[name].limit for name in absent), default=_NEVER)
        return [
            name
            for name in absent
            if self._steps - traces[name].last >= traces[name].limit
            and traces[name].times >= self.warmup_steps
        ]

    def _say(self, step: int, lost: Iterable[str], stuck: Iterable[str]) -> Alert:
        traces, holds = self._traces, self._holds
        values = dict(zip(self._watched, self._values, strict=True))
        # Sorted, because a replay must give the same message whatever the order of the dicts.
        lost, stuck = sorted(lost), sorted(stuck)
        gone = {name: self._steps - traces[name].last for name in lost}
        still = {name: holds[name].same for name in stuck}
        self.score = max(
            *(rows / traces[name].limit for name, rows in gone.items()),
            *(rows / self.missing_steps for rows in still.values()),
            1.0,
        )
        parts = [f"{name} has not been logged for {rows} rows" for name, rows in gone.items()]
        parts += [
            f"{name} has been stuck at {number(values[name] or 0.0, 6)} for {rows} rows"
            for name, rows in still.items()
        ]
        return Alert(
            detector=self.name,
            severity="warning",
            step=step,
            message=f"{'; '.join(parts)}.",
            metrics={
                "lost": ", ".join(lost),
                "stuck": ", ".join(stuck),
                "steps": float(max(*gone.values(), *still.values(), 0)),
                "score": self.score,
            },
            recommendation=self.recommendations["warning"],
            decisive=True,
        )

    def _observe(self, step: int, value: float) -> Alert | None:
        """Never called: `update` judges all metrics at once."""
        raise NotImplementedError


@cache
def _reader(names: tuple[str, ...]) -> Callable[[Mapping[str, float]], tuple[float, ...]]:
    """Return a function that reads the values of these names from a row, as fast as possible."""
    if len(names) > 1:
        return itemgetter(*names)
    return lambda row: tuple(row[name] for name in names)


@dataclass(slots=True)
class _Trace:
    """When one metric was logged."""

    last: int  # the number of the step at which it was logged last
    limit: int  # the number of steps without it after which it is lost
    times: int = 1  # how often it was logged


@dataclass(slots=True)
class _Hold:
    """How long one metric has had its value."""

    measured: bool  # whether it was ever different from 0
    same: int = 1  # number of consecutive rows with this value
    longest: int = 0  # the longest such series of an earlier value

    def end(self) -> None:
        """Note that the value has changed."""
        if self.measured and self.same > max(self.longest, 1):
            self.longest = self.same
        self.same = 1
        self.measured = True
