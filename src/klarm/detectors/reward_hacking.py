"""Reward hacking: the rewards spread far wider than at first, or have split into two groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from klarm.detectors.base import Detector
from klarm.dip import dip, dip_p_value
from klarm.settings import setting
from klarm.types import Alert, Severity

_CRITICAL_FACTOR = 2.0
# Fewer are a grade, not a scale: right or wrong is always two groups.
_FEWEST_DISTINCT = 10
# A baseline of which a larger share looked bimodal was so from the start. By chance, at most
# `dip_significance` of the steps do.
_MOST_BIMODAL = 0.2
# Beyond this, sums overflow.
_LARGEST = 1e300


@dataclass(kw_only=True, eq=False)
class RewardHackingDetector(Detector):
    """Warns when the variance of rewards is over `variance_multiplier` times its baseline's mean.

    Critical beyond twice that. The baseline is the first `baseline_window` variances, locked for
    good. Where the rewards of single samples are at hand, `update_samples` warns when they have
    become bimodal.

    >>> detector = RewardHackingDetector()
    >>> for step in range(100):
    ...     _ = detector.update(step, {"reward_std": 0.2})
    >>> detector.update(100, {"reward_std": 0.4}).severity
    'warning'
    """

    name: ClassVar[str] = "reward_hacking"
    signal: ClassVar[str] = "reward"
    watches: ClassVar[tuple[str, ...]] = ("reward_std",)
    recommendations: ClassVar[Mapping[Severity, str]] = {
        "warning": (
            "Read the samples with the highest rewards of this step: has the policy found "
            "something that the reward pays for and you would not?"
        ),
        "critical": (
            "Read samples now. If the reward is being gamed, stop: go back to a checkpoint from "
            "before the change and fix the reward or raise the KL penalty."
        ),
    }
    fewest_values: ClassVar[int] = 10

    warmup_steps: int = setting(50, "the first values, from which it only learns", at_least=0)
    baseline_window: int = setting(
        100, "how many of the first values make the baseline", at_least=10
    )
    variance_multiplier: float = setting(
        3.0,
        "warning above this many times the baseline's mean variance, critical above twice it",
        above=0,
    )
    min_variance: float = setting(
        1e-3, "the least baseline assumed, so that equal rewards do not alarm at a whisper", above=0
    )
    dip_significance: float = setting(
        0.05, "rewards of single samples are bimodal when the dip test's p is below this", above=0
    )

    def _start(self) -> None:
        self._total = 0.0
        self._learnt = 0
        # The baseline that the last value was measured against.
        self.mean = self.min_variance
        self._batches = 0  # of samples, in the baseline
        self._bimodal_batches = 0

    def _observe(self, step: int, value: float, metrics: Mapping[str, float]) -> Alert | None:  # noqa: ARG002
        variance = min(value * value, _LARGEST)
        ratio = self.score = variance / self.mean
        alert = self._judge(step, value, ratio) if ratio > self.variance_multiplier else None
        if self._learnt < self.baseline_window:
            self._learn(variance)
        return alert

    def update_samples(self, step: int, rewards: Iterable[float]) -> Alert | None:
        """Learn from the rewards of one step's samples; warn if they have become bimodal.

        Passed over are samples with fewer than ten distinct rewards, and rewards that are not
        finite. The monitor does not call this yet: an alert goes to the caller alone.
        """
        found = [float(reward) for reward in rewards]
        kept = [reward for reward in found if abs(reward) < _LARGEST]  # and no NaN
        if len(set(kept)) < _FEWEST_DISTINCT:
            return None
        distance = dip(kept)
        p = dip_p_value(distance, len(kept))
        bimodal = p < self.dip_significance
        before, bimodal_before = self._batches, self._bimodal_batches
        if before < self.baseline_window:
            self._batches += 1
            self._bimodal_batches += bimodal
        if not bimodal or before < self._silent_values or bimodal_before > _MOST_BIMODAL * before:
            return None
        return Alert(
            detector=self.name,
            severity="warning",
            step=step,
            message=(
                f"The rewards of {len(kept)} samples have split into groups: dip {distance:.3g}, "
                f"p {p:.2g} (bimodal below {self.dip_significance:g}), which they had not at first."
            ),
            metrics={"dip": distance, "p_value": p, "samples": float(len(kept))},
            recommendation=self.recommendations["warning"],
        )

    def _learn(self, variance: float) -> None:
        self._total += variance
        self._learnt += 1
        self.mean = max(self._total / self._learnt, self.min_variance)

    def _judge(self, step: int, value: float, ratio: float) -> Alert:
        severity: Severity = "critical" if ratio > self._threshold("critical") else "warning"
        message = (
            f"The rewards' variance {value * value:.4g} is {ratio:.3g} times its baseline of "
            f"{self.mean:.4g} ({severity} above {self._threshold(severity):g} times)."
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
