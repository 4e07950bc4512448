"""Reward hacking: rewards spread far wider than at first, or have split into two groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from klarm.detectors.base import NO_FACTS, Detector, Excused, Facts
from klarm.settings import setting
from klarm.types import SEVERITIES, Alert, Severity

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
    messages: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(
            SEVERITIES,
            "The variance of the reward is {variance:4}, {ratio} times its baseline of "
            "{baseline_variance:4}[ ({severity} above {threshold:g} times)].",
        ),
        "bimodal": "The rewards of this step have split into groups: the dip test has p = "
        "{reward_dip_p:2} (bimodal below {threshold:g}). {bimodal} of the first {tested} rows were "
        "bimodal.",
    }
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
        alert, p = super().update(step, metrics), metrics.get(_DIP_P)
        if p is None:
            return alert
        split = self._observe_shape(step, p, metrics)
        if alert is None or (split is not None and split.decisive and not alert.decisive):
            return split
        return alert

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
            return Detector._not_finite(self, step, _DIP_P, p)
        is_bimodal = p < self.dip_significance
        tested, bimodal = self._tested, self._bimodal
        if tested < self.baseline_window:
            self._tested += 1
            self._bimodal += is_bimodal
        if not is_bimodal or tested < self._silent_values or bimodal > _MAX_BIMODAL * tested:
            return None
        spread = metrics.get(self._metric)
        return Alert(
            detector=self.name,
            severity="warning",
            step=step,
            metric=_DIP_P,
            metrics={
                _DIP_P: p,
                "threshold": self.dip_significance,
                **({} if spread is None else {self._metric: spread}),
                "tested": float(tested),
                "bimodal": float(bimodal),
            },
            case="bimodal",
        )

    def _learn(self, variance: float) -> None:
        self._total += variance
        self._learnt += 1
        self.mean = max(self._total / self._learnt, self.min_variance)

    def _judge(self, step: int, value: float, ratio: float) -> Alert:
        severity: Severity = "critical" if ratio > self._threshold("critical") else "warning"
        facts = {**self._context(ratio, severity), "variance": value * value}
        return self._alert(severity, step, value, facts)

    def _not_finite(self, step: int, metric: str, value: float, _: Facts = NO_FACTS) -> Alert:
        return super()._not_finite(step, metric, value, self._context(value, "critical"))

    def _context(self, ratio: float, severity: Severity) -> dict[str, float | str]:
        """Return what a variance was compared with."""
        threshold = self._threshold(severity)
        return {"ratio": ratio, "baseline_variance": self.mean, "threshold": threshold}

    def _threshold(self, severity: Severity) -> float:
        return self.variance_multiplier * (_CRITICAL_FACTOR if severity == "critical" else 1.0)
