"""Clip saturation: so many ratios are clipped that updates mean little."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from klarm.detectors.base import Excused
from klarm.detectors.lazy_score import LazyScoreDetector
from klarm.settings import setting
from klarm.text import number
from klarm.types import Alert, Severity

_CRITICAL_FACTOR = 2.0


@dataclass(kw_only=True, eq=False)
class ClipSaturationDetector(LazyScoreDetector):
    """Warns when the clipped share has been above `share` for `consecutive_steps` values.

    Critical if it has been above twice that for as long. One alert opens an incident, because it
    already takes many rows.
    """

    name: ClassVar[str] = "clip_saturation"
    signal: ClassVar[str] = "gradient"
    watches: ClassVar[tuple[str, ...]] = ("clip_fraction",)
    has_fixed_limit: ClassVar[bool] = True
    excused_when: ClassVar[Excused] = "harmless"
    recommendations: ClassVar[Mapping[Severity, str]] = {
        "warning": (
            "Lower the learning rate, or take fewer epochs or minibatches over a batch, so that "
            "the policy stays near the one that sampled it: much of each batch gives no gradient."
        ),
        "critical": (
            "Lower the learning rate now: most of the gradient is clipped away. If that does not "
            "help, check that old and new log-probabilities come from the same tokens, masks and "
            "precision."
        ),
    }

    warmup_steps: int = setting(
        0,
        "number of first values to learn from; of these, only NaN and infinity raise an alert",
        at_least=0,
    )
    share: float = setting(
        0.2, "warning when the clipped share stays above this, critical above twice it", above=0
    )
    consecutive_steps: int = setting(20, "number of consecutive values above it", at_least=1)

    def _start(self) -> None:
        self._last: deque[float] = deque(maxlen=self.consecutive_steps)
        self._above = 0  # consecutive values above the share

    def _observe(self, step: int, value: float) -> Alert | None:
        self._last.append(value)
        self._score = None
        if value <= self.share:
            self._above = 0
            return None
        self._above += 1
        if self._above < self.consecutive_steps:
            return None
        low = self.score
        severity: Severity = "critical" if low > self._limit("critical") else "warning"
        message = (
            f"The clipped share has been at least {number(low)} for {self.consecutive_steps} "
            f"rows, now {number(value)} ({severity} above {self._limit(severity):g})."
        )
        return self._alert(severity, step, value, message, decisive=True)

    def _compute_score(self) -> float:
        return min(self._last) if len(self._last) == self.consecutive_steps else 0.0

    def _details(self, value: float, score: float, severity: Severity) -> dict[str, float | str]:
        return {
            **super()._details(value, score, severity),
            "score": score,
            "threshold": self._limit(severity),
        }

    def _limit(self, severity: Severity) -> float:
        return self.share * (_CRITICAL_FACTOR if severity == "critical" else 1.0)
