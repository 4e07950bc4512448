"""Metric lost: a metric is no longer logged, or is stuck at one value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf
from typing import ClassVar, Literal

from klarm.detectors.base import Detector
from klarm.metrics import METRICS, Kind
from klarm.settings import setting
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
    # Said of each of `names`, with the facts that begin with its name.
    messages: ClassVar[Mapping[str, str]] = {
        "missing": "{name} has not been logged for {rows:d} rows",
        "stuck": "{name} has been stuck at {value:6} for {rows:d} rows",
    }
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
        self._holds: dict[str, _Hold] = {}  # of the metrics that never repeat a value
        self._due = 0  # nothing can be lost before this step
        self._best = -inf  # the highest reward before its current value

    def looks_at(self, metrics: Mapping[str, object]) -> bool:  # noqa: ARG002
        """Return True: it also judges a step in which a metric is missing."""
        return True

    def update(self, step: int, metrics: Mapping[str, float]) -> Alert | None:
        """Learn from one step; return an alert if something is missing or stuck."""
        is_new = step != self._step
        self._step = step
        now = self._steps = self._steps + is_new
        traces = self._traces
        for name in metrics:
            trace = traces.get(name)
            if trace is not None:
                trace.times += 1
                if now - trace.last > 1:
                    trace.limit = max(trace.limit, _GAPS * (now - trace.last))
                trace.last = now
            elif name in _KNOWN:
                traces[name] = _Trace(now, self.missing_steps)
        stuck = self._stuck(metrics)
        lost = self._lost() if is_new and now >= self._due else []
        self.score = 0.0
        return self._say(step, lost, stuck) if lost or stuck else None

    def _stuck(self, metrics: Mapping[str, float]) -> list[str]:
        """Compare with the previous values; return the metrics that are stuck."""
        stuck, holds = [], self._holds
        for name in _NEVER_CONSTANT:
            value = metrics.get(name)
            if value is None:
                continue
            hold = holds.get(name)
            if hold is None:
                holds[name] = _Hold(value, measured=value != 0.0)
            elif value == hold.value:
                hold.same += 1
                if hold.same >= self.missing_steps and self._is_stuck(name, value, hold):
                    stuck.append(name)
            else:
                if name == _BEST_IS_NORMAL and hold.value > self._best:
                    self._best = hold.value
                if hold.same > 1:
                    if hold.measured and hold.same > hold.longest:
                        hold.longest = hold.same
                    hold.same = 1
                hold.value, hold.measured = value, True
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
        """Return the lost metrics, and set before which step none can be lost."""
        self._due = self._steps + min(
            (trace.limit - (self._steps - trace.last) for trace in self._traces.values()), default=0
        )
        return [
            name
            for name, trace in self._traces.items()
            if self._steps - trace.last >= trace.limit and trace.times >= self.warmup_steps
        ]

    def _say(self, step: int, lost: Iterable[str], stuck: Iterable[str]) -> Alert:
        # Sorted, because a replay must give the same alert whatever the order of the dicts.
        gone = {name: self._steps - self._traces[name].last for name in sorted(lost)}
        still = {name: self._holds[name].same for name in sorted(stuck)}
        self.score = max(
            *(rows / self._traces[name].limit for name, rows in gone.items()),
            *(rows / self.missing_steps for rows in still.values()),
            1.0,
        )
        return Alert(
            detector=self.name,
            severity="warning",
            step=step,
            metric=next(iter([*gone, *still])),
            worse="missing" if gone else "stuck",
            metrics={
                "steps": float(max(*gone.values(), *still.values(), 0)),
                "score": self.score,
                **{f"{name} rows": float(rows) for name, rows in (gone | still).items()},
                **{f"{name} stuck at": self._holds[name].value for name in still},
            },
            names=(*gone, *still),
            decisive=True,
        )

    def _observe(self, step: int, value: float) -> Alert | None:
        """Never called: `update` judges all metrics at once."""
        raise NotImplementedError


@dataclass(slots=True)
class _Trace:
    """When one metric was logged."""

    last: int  # the number of the step at which it was logged last
    limit: int  # the number of steps without it after which it is lost
    times: int = 1  # how often it was logged


@dataclass(slots=True)
class _Hold:
    """How long one metric has had its value."""

    value: float
    measured: bool  # whether it was ever different from 0
    same: int = 1  # number of consecutive rows with this value
    longest: int = 0  # the longest such series of an earlier value
