"""Clip saturation: so many ratios are clipped that updates mean little."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from klarm.detectors.base import Detector, Excused
from klarm.settings import setting
from klarm.types import SEVERITIES, Alert, Severity

_CRITICAL_FACTOR = 2.0


@dataclass(kw_only=True, eq=False)
class ClipSaturationDetector(Detector):
    """Warns when the clipped share has been above `share` for `consecutive_steps` values.

    Critical if it has been above twice that for as long. One alert opens an incident, because it
    already takes many rows.
    """

    name: ClassVar[str] = "clip_saturation"
    signal: ClassVar[str] = "gradient"
    watches: ClassVar[tuple[str, ...]] = ("clip_fraction",)
    has_fixed_limit: ClassVar[bool] = True
    excused_when: ClassVar[Excused] = "harmless"
    messages: ClassVar[Mapping[str, str]] = dict.fromkeys(
        SEVERITIES,
        "The clipped share has been at least {score} for {rows} rows, now {value}"
        "[ ({severity} above {threshold:g})].",
    )
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
        self._above = self._above + 1 if value > self.share else 0
        if self._above < self.consecutive_steps:
            self.score = 0.0
            return None
        self.score = min(self._last)
        critical = self.share * _CRITICAL_FACTOR
        severity: Severity = "critical" if self.score > critical else "warning"
        facts = {
            "score": self.score,
            "threshold": critical if severity == "critical" else self.share,
            "rows": float(self.consecutive_steps),
        }
        return self._alert(severity, step, value, facts, decisive=True)
