"""Metric lost: something that was logged is gone, or stands still."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import ClassVar, Literal

from klarm.detectors.base import Detector
from klarm.metrics import METRICS
from klarm.settings import setting
from klarm.types import Alert, Severity

# The metrics that noise keeps from ever repeating themselves. Others, such as a learning rate or a
# share, are often the same for long in a healthy run.
_NEVER_CONSTANT = ("kl", "entropy", "reward", "loss", "grad_norm")
# Rewards that no longer differ have no p, and other losses are named only when they are broken:
# that these are gone is no failure of logging.
_KNOWN = METRICS.keys() - {"reward_dip_p", "other_loss"}
# Logs round, and a policy loss is near 0 by nature: standing at 0 says nothing of it.
_ZERO_IS_NORMAL = "loss"
_ROUNDED_AWAY = 1e-3  # a loss below this, printed with four decimals, looks constant
# A reward at its highest is one that cannot rise any more.
_BEST_IS_NORMAL = "reward"
# A log that fills values forward holds them all the time: stuck is what lasts so many times as long
# as any value did before.
_HOLDS = 10
# A metric with gaps is missed when it stays away this many times as long as it ever did.
_GAPS = 3


@dataclass(kw_only=True, eq=False)
class MetricLostDetector(Detector):
    """Warns when a metric has been missing, or stuck at one exact value, for `missing_steps`.

    Counted are steps that were logged. A metric that comes on every n-th step is missed after three
    of its longest gaps at the earliest. A metric that has been 0 from the start is not measured,
    rather than stuck.
    """

    name: ClassVar[str] = "metric_lost"
    signal: ClassVar[str] = "liveness"
    watches: ClassVar[tuple[str, ...]] = tuple(METRICS)
    recovery: ClassVar[Literal["level", "quiet"]] = "quiet"
    watches_all: ClassVar[bool] = True
    measures: ClassVar[str] = "steps"
    recommendations: ClassVar[Mapping[Severity, str]] = {
        "warning": (
            "Detectors of this metric are blind. See whether the trainer still computes and logs "
            "it; a value that stands still can also be a policy that no longer changes."
        ),
    }

    warmup_steps: int = setting(
        5, "how often a metric must have been there before it can be missed", at_least=0
    )
    missing_steps: int = setting(50, "warning when it is gone or stuck for so long", at_least=2)

    def _start(self) -> None:
        self._steps = 0
        self._step: int | None = None  # several dicts may make up one
        self._traces: dict[str, _Trace] = {}
        self._due = 0  # nothing can be missed before this many steps

    def looks_at(self, metrics: Mapping[str, object]) -> bool:  # noqa: ARG002
        """Always: a step with nothing in it is what it is looking for."""
        return True

    def update(self, step: int, metrics: Mapping[str, float]) -> Alert | None:
        """Learn from one step; return an alert if something is missing or stuck."""
        is_new = step != self._step
        if is_new:
            self._step = step
            self._steps += 1
        now = self._steps
        stuck: list[str] = []
        for name, value in metrics.items():
            trace = self._traces.get(name)
            if trace is None:
                if name in _KNOWN:
                    self._begin(name, value)
                continue
            trace.times += 1
            if now - trace.last > 1:
                trace.limit = max(trace.limit, _GAPS * (now - trace.last))
            trace.last = now
            if value != trace.value:
                trace.change_to(value)
            else:
                trace.same += 1
                if trace.same >= self.missing_steps and self._is_stuck(name, trace):
                    stuck.append(name)
        lost = self._lost() if is_new and now >= self._due else []
        self.score = 0.0
        return self._say(step, lost, stuck) if lost or stuck else None

    def _begin(self, name: str, value: float) -> None:
        self._traces[name] = _Trace(
            last=self._steps,
            limit=self.missing_steps,
            value=value,
            measured=value != 0.0,
        )
        self._due = min(self._due, self._steps + self.missing_steps)

    def _is_stuck(self, name: str, trace: _Trace) -> bool:
        if name not in _NEVER_CONSTANT or not trace.measured:
            return False
        if name == _ZERO_IS_NORMAL and abs(trace.value) < _ROUNDED_AWAY:
            return False
        if name == _BEST_IS_NORMAL and trace.value >= trace.highest:
            return False  # as good as it ever was: saturated, not stuck
        return trace.same >= _HOLDS * trace.longest_hold

    def _lost(self) -> list[str]:
        """Return what is missed, and put off looking until something else may be."""
        traces = self._traces
        self._due = min((t.last + t.limit for t in traces.values()), default=0)
        return [
            name
            for name, trace in traces.items()
            if self._steps - trace.last >= trace.limit and trace.times >= self.warmup_steps
        ]

    def _say(self, step: int, lost: list[str], stuck: list[str]) -> Alert:
        traces = self._traces
        # In one order, whatever that of the dicts: a replay must say the same.
        lost, stuck = sorted(lost), sorted(stuck)
        gone = {name: self._steps - traces[name].last for name in lost}
        still = {name: traces[name].same for name in stuck}
        self.score = max(
            *(steps / traces[name].limit for name, steps in gone.items()),
            *(steps / self.missing_steps for steps in still.values()),
            1.0,
        )
        parts = [f"{name} has not been logged for {steps} steps" for name, steps in gone.items()]
        parts += [
            f"{name} has been stuck at {traces[name].value:.6g} for {steps} steps"
            for name, steps in still.items()
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

    def _observe(self, step: int, value: float, metrics: Mapping[str, float]) -> Alert | None:
        """Not asked: `update` looks at all metrics at once."""
        raise NotImplementedError


@dataclass(slots=True)
class _Trace:
    """What is known of one metric."""

    last: int  # the count of steps when it was there last
    limit: int  # after how many steps without it, it is missed
    value: float
    measured: bool  # whether it was ever anything but 0
    times: int = 1  # how often it was there
    same: int = 1  # how often in a row with this value
    highest: float = -inf  # before this value
    longest_hold: int = 0  # the most times in a row with one value, before this one

    def change_to(self, value: float) -> None:
        """Take in another value than the last."""
        if self.same > 1 and self.measured and self.same > self.longest_hold:
            self.longest_hold = self.same
        self.highest = max(self.highest, self.value)
        self.value = value
        self.same = 1
        self.measured = True
