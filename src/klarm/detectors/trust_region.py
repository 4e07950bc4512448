"""Trust region: one policy update moved the policy too far."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from klarm.detectors.base import Detector
from klarm.settings import setting
from klarm.stats import median
from klarm.types import Alert, Severity

_CONFIRMING_VALUES = 3
# A value this many times the limit needs no confirmation.
_DECISIVE_FACTOR = 10.0


@dataclass(kw_only=True, eq=False)
class TrustRegionDetector(Detector):
    """Warns when an update moved the policy by more than `max_step_nats`.

    Critical if the median of the last three updates does, or a single one exceeds ten times the
    limit; then one alert opens an incident, because a short run may have no second one. A signed
    estimate is judged by its absolute value.

    >>> detector = TrustRegionDetector()
    >>> [detector.update(step, {"kl_old": 0.3}).severity for step in range(3)]
    ['warning', 'warning', 'critical']
    """

    name: ClassVar[str] = "trust_region"
    signal: ClassVar[str] = "kl"
    watches: ClassVar[tuple[str, ...]] = ("kl_old",)
    has_fixed_limit: ClassVar[bool] = True
    limit_per_token: ClassVar[str] = "max_step_nats"
    messages: ClassVar[Mapping[str, str]] = {
        "warning": "This update moved the policy by {size} nats (warning above {threshold:g}).",
        "lasting": "The last three updates moved the policy by a median of {usual} nats"
        "[ ({severity} above {threshold:g})].",
        "single": "This update alone moved the policy by {size} nats"
        "[ ({severity} above {decisive_above:g})].",
    }
    recommendations: ClassVar[Mapping[Severity, str]] = {
        "warning": (
            "Lower the learning rate or use fewer epochs per batch if more such updates follow."
        ),
        "critical": (
            "Lower the learning rate, use fewer epochs per batch, or stop a batch early at a "
            "target KL. If the reward has fallen, go back to a checkpoint from before."
        ),
    }

    warmup_steps: int = setting(
        0,
        "number of first values to learn from; of these, only NaN and infinity raise an alert",
        at_least=0,
    )
    max_step_nats: float = setting(
        0.1,
        "warning when one update exceeds this; critical when the median of three does",
        above=0,
    )

    def _start(self) -> None:
        self._last: deque[float] = deque(maxlen=_CONFIRMING_VALUES)

    def _observe(self, step: int, value: float) -> Alert | None:
        size = abs(value)
        last = self._last
        last.append(size)
        usual = median(last) if len(last) == _CONFIRMING_VALUES else 0.0
        self.score = size if size > usual else usual
        if self.score <= self.max_step_nats:
            return None
        limit, decisive_above = self.max_step_nats, _DECISIVE_FACTOR * self.max_step_nats
        facts = {
            "score": self.score,
            "threshold": limit,
            "size": size,
            "usual": usual,
            "decisive_above": decisive_above,
        }
        if usual > limit:
            return self._alert("critical", step, value, facts, case="lasting", decisive=True)
        if size > decisive_above:
            return self._alert("critical", step, value, facts, case="single", decisive=True)
        return self._alert("warning", step, value, facts)
