"""KL negative: the estimate of KL stays below 0, which a true KL cannot."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from typing import ClassVar

from klarm.detectors.base import Detector
from klarm.settings import setting
from klarm.stats import MAD_TO_STD, median, scatter
from klarm.types import Alert, Severity, Worse

# The median must be this many standard errors below 0.
_MIN_STANDARD_ERRORS = 4.0
# 1.2533 over √n converts a standard deviation to the standard error of the median of n values.
_TO_ERROR = MAD_TO_STD * 1.2533


@dataclass(kw_only=True, eq=False)
class KLNegativeDetector(Detector):
    """Warns when the median of the last `recent_steps` KLs is below minus `limit_nats`.

    An estimate from few samples (k1) scatters around its mean, so single values below 0 mean
    nothing. A mean below 0 means that the samples do not come from the policy that is measured.

    >>> detector = KLNegativeDetector()
    >>> alerts = [detector.update(step, {"kl": -0.25}) for step in range(20)]
    >>> [alert.step for alert in alerts if alert]
    [19]
    """

    name: ClassVar[str] = "kl_negative"
    signal: ClassVar[str] = "kl"
    watches: ClassVar[tuple[str, ...]] = ("kl",)
    has_fixed_limit: ClassVar[bool] = True
    limit_per_token: ClassVar[str] = "limit_nats"
    worse: ClassVar[Worse] = "lower"
    messages: ClassVar[Mapping[str, str]] = {
        "warning": "The median KL of the last {rows} rows is {level}. A KL cannot be negative, so "
        "this estimate is wrong (warning below -{threshold:g}).",
    }
    recommendations: ClassVar[Mapping[Severity, str]] = {
        "warning": (
            "Check what KL is computed from: samples of an older policy or of another engine, "
            "different masks or padding for the two models, or swapped models. Until this is "
            "fixed, the KL penalty pushes the wrong way."
        ),
    }

    warmup_steps: int = setting(
        0,
        "number of first values to learn from; of these, only NaN and infinity raise an alert",
        at_least=0,
    )
    limit_nats: float = setting(0.1, "warning when KL stays below the negative of this", above=0)
    recent_steps: int = setting(20, "number of values in the median", at_least=5)

    def _start(self) -> None:
        self._last: deque[float] = deque(maxlen=self.recent_steps)
        self._since_negative = self.recent_steps  # number of values since the last one below 0

    def _observe(self, step: int, value: float) -> Alert | None:
        self._since_negative = 0 if value < 0.0 else self._since_negative + 1
        last = self._last
        last.append(value)
        self.score = 0.0
        if self._since_negative >= self.recent_steps or len(last) < self.recent_steps:
            return None
        level = median(last)
        self.score = max(-level, 0.0)
        if self.score <= self.limit_nats:
            return None
        error = _TO_ERROR * scatter(last, level) / sqrt(self.recent_steps)
        if self.score <= _MIN_STANDARD_ERRORS * error:
            return None  # an estimate with this noise may be below 0 by chance
        facts = {
            "score": self.score,
            "threshold": self.limit_nats,
            "level": level,
            "rows": float(self.recent_steps),
        }
        return self._alert("warning", step, value, facts, decisive=True)
