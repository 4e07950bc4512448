"""Reward hacking: rewards spread far wider than at first, or have split into two groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from klarm.detectors.base import Detector, Excused, Shortcut
from klarm.settings import setting
from klarm.text import number
from klarm.types import Alert, Severity

_CRITICAL_FACTOR = 2.0
# If a larger share of the baseline looks bimodal, the rewards were so from the start. By chance, at
# most `dip_significance` of the steps do.
_MAX_BIMODAL = 0.1
_DIP_P = "reward_dip_p"
# Sums of larger values overflow.
_MAX_SIZE = 1e300


@dataclass(kw_only=True, eq=False)
class RewardHackingDetector(Detector):
    """Warns when the variance of rewards is over `variance_multiplier` times its baseline's mean.

    Critical above twice that. The baseline consists of the first `baseline_window` variances,
    permanently. If the rewards of single samples are logged, it also warns when they have become
    bimodal: the p-value of the dip test is below `dip_significance`, which was rare at first.

    >>> detector = RewardHackingDetector()
    >>> for step in range(100):
    ...     _ = detector.update(step, {"reward_std": 0.2})
    >>> detector.update(100, {"reward_std": 0.4}).severity
    'warning'
    """

    name: ClassVar[str] = "reward_hacking"
    signal: ClassVar[str] = "reward"
    counts_held_values: ClassVar[bool] = True  # as specified
    watches: ClassVar[tuple[str, ...]] = ("reward_std", _DIP_P)
    reads: ClassVar[tuple[str, ...]] = watches
    excused_when: ClassVar[Excused] = "taking_off"
    shortcut: ClassVar[Shortcut] = "alone"
    recommendations: ClassVar[Mapping[Severity, str]] = {
        "warning": (
            "Read the samples with the highest rewards of this step: has the policy found "
            "something that the reward pays for, but that you do not want?"
        ),
        "critical": (
            "Stop and read samples: if the reward is being gamed, go back to a checkpoint from "
            "before the change, and fix the reward or raise the KL penalty."
        ),
    }
    min_values: ClassVar[int] = 10

    warmup_steps: int = setting(
        50,
        "number of first values to learn from; of these, only NaN and infinity raise an alert",
        at_least=0,
    )
    baseline_window: int = setting(100, "number of first values in the baseline", at_least=10)
    variance_multiplier: float = setting(
        3.0,
        "warning above this many times the baseline's mean variance, critical above twice it",
        above=0,
    )
    min_variance: float = setting(
        1e-3, "minimum baseline; avoids alerts on tiny changes of nearly equal rewards", above=0
    )
    dip_significance: float = setting(
        0.05,
        "the rewards of a step are bimodal if the p-value of the dip test is below this",
        above=0,
    )

    def _start(self) -> None:
        self._total = 0.0
        self._learnt = 0
        # The baseline that the last value was compared with.
        self.mean = self.min_variance
        self._tested = 0  # number of steps with a p-value in the baseline
        self._bimodal = 0  # number of them that were bimodal

    def update(self, step: int, metrics: Mapping[str, float]) -> Alert | None:
        """Learn from one step; return an alert if the rewards spread too wide, or have split."""
        p = metrics.get(_DIP_P)
        if p is None:
            return self._update_metric(step, metrics)
        found = (self._update_metric(step, metrics), self._observe_shape(step, p, metrics))
        alerts = [alert for alert in found if alert is not None]
        return max(alerts, key=lambda alert: alert.decisive, default=None)

    def looks_at(self, metrics: Mapping[str, object]) -> bool:
        """Return whether these metrics contain a value that it judges."""
        return self._metric in metrics or _DIP_P in metrics

    def _observe(self, step: int, value: float) -> Alert | None:
        square = value * value
        variance = square if square < _MAX_SIZE else _MAX_SIZE
        ratio = self.score = variance / self.mean
        alert = self._judge(step, value, ratio) if ratio > self.variance_multiplier else None
        if self._learnt < self.baseline_window:
            self._learn(variance)
        return alert

    def _observe_shape(self, step: int, p: float, metrics: Mapping[str, float]) -> Alert | None:
        """Warn if the rewards are bimodal and were not at first; then learn from this step."""
        if p - p != 0.0:  # only NaN and the infinities
            return self._not_finite(step, p, _DIP_P)
        is_bimodal = p < self.dip_significance
        tested, bimodal = self._tested, self._bimodal
        if tested < self.baseline_window:
            self._tested += 1
            self._bimodal += is_bimodal
        if not is_bimodal or tested < self._silent_values or bimodal > _MAX_BIMODAL * tested:
            return None
        numbers: dict[str, float | str] = {_DIP_P: p, "threshold": self.dip_significance}
        if self._metric in metrics:
            numbers[self._metric] = metrics[self._metric]
        return Alert(
            detector=self.name,
            severity="warning",
            step=step,
            message=(
                "The rewards of this step have split into groups: the dip test has p = "
                f"{number(p, 2)} (bimodal below {self.dip_significance:g}). {bimodal} of the first "
                f"{tested} rows were bimodal."
            ),
            metrics=numbers,
            recommendation=self.recommendations["warning"],
        )

    def _learn(self, variance: float) -> None:
        self._total += variance
        self._learnt += 1
        self.mean = max(self._total / self._learnt, self.min_variance)

    def _judge(self, step: int, value: float, ratio: float) -> Alert:
        severity: Severity = "critical" if ratio > self._threshold("critical") else "warning"
        message = (
            f"The variance of the reward is {number(value * value, 4)}, {number(ratio)} times its "
            f"baseline of {number(self.mean, 4)} ({severity} above {self._threshold(severity):g} "
            "times)."
        )
        return self._alert(severity, step, value, message)

    def _details(self, value: float, score: float, severity: Severity) -> dict[str, float | str]:
        return {
            self._metric: value,
            "ratio": score,
            "baseline_variance": self.mean,
            "threshold": self._threshold(severity),
        }

    def _threshold(self, severity: Severity) -> float:
        return self.variance_multiplier * (_CRITICAL_FACTOR if severity == "critical" else 1.0)
