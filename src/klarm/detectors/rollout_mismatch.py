"""Rollout mismatch: the policies of trainer and sampler differ."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from klarm.detectors.base import Detector
from klarm.settings import setting
from klarm.stats import median
from klarm.types import SEVERITIES, Alert, Severity

_CRITICAL_FACTOR = 3.0


@dataclass(kw_only=True, eq=False)
class RolloutMismatchDetector(Detector):
    """Warns when the recent median of the gap is above `floor_nats` and `growth` times its start.

    Critical above three times the higher of the two. The start is the median over the warm-up,
    permanently, so slow growth is detected, too. A signed estimate is judged by its absolute value.
    """

    name: ClassVar[str] = "rollout_mismatch"
    signal: ClassVar[str] = "kl"
    watches: ClassVar[tuple[str, ...]] = ("kl_rollout",)
    has_fixed_limit: ClassVar[bool] = True
    min_values: ClassVar[int] = 5
    limit_per_token: ClassVar[str] = "floor_nats"
    messages: ClassVar[Mapping[str, str]] = dict.fromkeys(
        SEVERITIES,
        "Trainer and sampler are {level} nats apart (median of the last {rows} rows"
        "[; {severity} above {limit} in this run]).",
    )
    recommendations: ClassVar[Mapping[Severity, str]] = {
        "warning": (
            "Check that weights are synchronised at every update, and that trainer and sampler "
            "use the same precision, templates and sampling settings. Truncated "
            "importance weights limit the damage."
        ),
        "critical": (
            "Stop: the samples are no longer those of the policy that is trained. Restart the "
            "sampler from the trainer's weights, compare log-probabilities token by token, and go "
            "back to a checkpoint from before the gap opened."
        ),
    }

    floor_nats: float = setting(0.02, "gaps below this never raise an alert", above=0)
    growth: float = setting(
        5.0,
        "warning above this many times the first level of the gap; critical at three times that",
        above=1,
    )
    recent_steps: int = setting(10, "number of values in the recent median", at_least=1)

    def _start(self) -> None:
        self._last: deque[float] = deque(maxlen=self.recent_steps)
        self._first: list[float] = []  # values of the warm-up, from which the limit is computed
        self._limit = self.floor_nats

    def _observe(self, step: int, value: float) -> Alert | None:
        size = abs(value)
        self._last.append(size)
        if self._seen < self._silent_values:
            self._learn(size)
            return None
        # 1 is a warning, 3 critical.
        level = median(self._last)
        score = self.score = level / self._limit
        if score <= 1.0:
            return None
        severity: Severity = "critical" if score > _CRITICAL_FACTOR else "warning"
        factor = _CRITICAL_FACTOR if severity == "critical" else 1.0
        facts = {
            "score": score,
            "threshold": factor,
            "limit_nats": self._limit,
            "level": level,
            "rows": float(len(self._last)),
            "limit": self._limit * factor,
        }
        return self._alert(severity, step, value, facts, decisive=True)

    def _learn(self, size: float) -> None:
        self._first.append(size)
        if len(self._first) == self._silent_values:
            self._limit = max(self.floor_nats, min(self.growth * median(self._first), 1e300))
            self._first = []
