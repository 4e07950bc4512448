"""Advantage variance: the spread of the advantages is far larger than before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from klarm.detectors.base import Detector
from klarm.settings import setting
from klarm.stats import SlidingMoments
from klarm.types import Alert, Severity

_CRITICAL_FACTOR = 2.0
_WHAT = "The standard deviation of advantages {advantage_std:4} is {ratio} times"
_LIMIT = "[ ({severity} above {threshold:g} times)]"


@dataclass(kw_only=True, eq=False)
class AdvantageVarianceDetector(Detector):
    """Warns when the spread of advantages is over `std_multiplier` times its baseline's mean.

    Critical above twice that. The baseline consists of earlier spreads: the last `rolling_window`
    of them, or permanently the first ones if it is frozen.

    >>> detector = AdvantageVarianceDetector()
    >>> for step in range(50):
    ...     _ = detector.update(step, {"advantage_std": 0.25})
    >>> detector.update(50, {"advantage_std": 1.0}).severity
    'warning'
    """

    name: ClassVar[str] = "advantage_variance"
    signal: ClassVar[str] = "advantage"
    watches: ClassVar[tuple[str, ...]] = ("advantage_std",)
    messages: ClassVar[Mapping[str, str]] = {
        "rolling": f"{_WHAT} its rolling baseline of {{baseline_mean:4}}{_LIMIT}.",
        "frozen": f"{_WHAT} the baseline of its first {{learnt}} values, "
        f"{{baseline_mean:4}}{_LIMIT}.",
        "accepted": f"{_WHAT} the baseline of the {{learnt}} values since its level was accepted, "
        f"{{baseline_mean:4}}{_LIMIT}.",
    }
    recommendations: ClassVar[Mapping[Severity, str]] = {
        "warning": (
            "Look at the rewards of this step: a few extreme ones widen the advantages. "
            "Clip or normalise the rewards if it continues."
        ),
        "critical": (
            "Clip rewards or normalise advantages before the gradients explode, lower the "
            "learning rate, and check the reward function and the value model."
        ),
    }
    min_values: ClassVar[int] = 10

    std_multiplier: float = setting(
        3.0, "warning above this many times the baseline's mean, critical above twice it", above=0
    )
    rolling_window: int = setting(100, "number of values in the baseline", at_least=10)
    baseline_mode: str = setting(
        "rolling",
        "rolling: the latest values; frozen: always the first ones, which catches slow growth",
        choices=("rolling", "frozen"),
    )
    min_mean: float = setting(
        0.01, "minimum mean; avoids alerts on tiny changes of tiny advantages", above=0
    )

    def _start(self) -> None:
        self._window = SlidingMoments(self.rolling_window)
        # The baseline that the last value was compared with.
        self.mean = self.min_mean

    def _observe(self, step: int, value: float) -> Alert | None:
        mean = self._window.mean
        mean = self.mean = self.min_mean if mean < self.min_mean else mean
        ratio = value / mean
        if ratio != ratio:  # noqa: PLR0124  # NaN: values near the largest float overflowed
            ratio = 0.0
        self.score = ratio
        alert = self._judge(step, value, ratio) if ratio > self.std_multiplier else None
        if self.baseline_mode == "rolling" or self._seen < self.rolling_window:
            self._window.update(value)
        return alert

    def _judge(self, step: int, value: float, ratio: float) -> Alert:
        critical = self.std_multiplier * _CRITICAL_FACTOR
        severity: Severity = "critical" if ratio > critical else "warning"
        case = "accepted" if self.baseline_mode == "frozen" and self._relearnt else ""
        return self._alert(
            severity,
            step,
            value,
            {
                "ratio": ratio,
                "baseline_mean": self.mean,
                "baseline_mode": self.baseline_mode,
                "threshold": critical if severity == "critical" else self.std_multiplier,
                "learnt": float(min(self._seen, self.rolling_window)),
            },
            case=case or self.baseline_mode,
        )
