"""The z-score rule that several detectors share: a value is far above its own past."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, ClassVar

from klarm.detectors.base import CRITICAL_FACTOR, LEVEL_BEFORE, NO_FACTS, Detector, Facts
from klarm.settings import setting
from klarm.stats import SlidingMoments
from klarm.types import Alert, Severity

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

# A smaller spread than this share of the mean is rounding, not noise.
_MIN_RELATIVE_STD = 0.01
_LIMIT = "[ ({severity} above {threshold:g}σ)]"


@dataclass(kw_only=True, eq=False)
class ZScoreDetector(Detector):
    """Warns when its metric is more than `sigma_multiplier` standard deviations above its baseline.

    Critical above 1.5 times that. The baseline is the mean and standard deviation of earlier
    values: the last `rolling_window` of them, or permanently the first ones if it is frozen. A
    rolling baseline catches spikes, but follows slow drift; a frozen one catches drift.
    """

    # A value further out than this is judged, but not learnt: it would hide the next one.
    outlier_sigmas: ClassVar[float] = inf
    min_values: ClassVar[int] = 10
    messages: ClassVar[Mapping[str, str]] = {
        "rolling": "{label} {value:4} is {z_score}σ above its rolling baseline of "
        f"{{baseline_mean:4}} ± {{spread}}{_LIMIT}.",
        "frozen": "{label} {value:4} is {z_score}σ above the baseline of its first {learnt} "
        f"values, {{baseline_mean:4}} ± {{spread}}{_LIMIT}.",
        "accepted": "{label} {value:4} is {z_score}σ above the baseline of the {learnt} values "
        f"since its level was accepted, {{baseline_mean:4}} ± {{spread}}{_LIMIT}.",
        # What incidents/restated.py makes of an alert whose baseline has learnt the explosion.
        "since_onset": "{label} {value:4} is {z_score}σ above its mean before step {onset:d} "
        "({baseline_mean:4} ± {spread}).",
        "unknown_before": "{label} {value:4} is far above its recent values.",
    }

    sigma_multiplier: float = setting(
        3.0, "warning above this many standard deviations, critical above 1.5 times it", above=0
    )
    rolling_window: int = setting(100, "number of values in the baseline", at_least=10)
    baseline_mode: str = setting(
        "rolling",
        "rolling: the latest values; frozen: always the first ones, which catches slow drift",
        choices=("rolling", "frozen"),
    )
    min_std: float = setting(
        1e-4, "minimum standard deviation; avoids alerts on tiny changes in a flat series", above=0
    )

    def _start(self) -> None:
        self._moments = SlidingMoments(self.rolling_window)
        self._is_fixed = False
        # The baseline that the last value was compared with.
        self.mean = 0.0
        self.spread = self.min_std

    def _observe(self, step: int, value: float) -> Alert | None:
        # `scores` does the same for a whole series and must round in the same way.
        moments = self._moments
        if not self._is_fixed:
            self.mean, self.spread = moments.mean, self._spread_of(moments)
        z = (value - self.mean) / self.spread
        if z != z:  # noqa: PLR0124  # NaN: values above 1e150 overflow, so the spread is unknown
            z = 0.0
        self.score = z
        alert = self._judge(step, value, z) if z > self.sigma_multiplier else None
        if self.baseline_mode == "rolling" or self._seen < self.rolling_window:
            if not (z > self.outlier_sigmas and self._seen >= self._silent_values):
                moments.update(value)
        else:
            self._is_fixed = True  # what was compared with now is compared with from now on
        return alert

    def _spread_of(self, moments: SlidingMoments) -> float:
        return max(moments.std, _MIN_RELATIVE_STD * abs(moments.mean), self.min_std)

    @property
    def is_learning(self) -> bool:
        """Whether its baseline still learns from new values; a frozen one does not, once full."""
        return not self._is_fixed

    def baseline_of(self, values: Iterable[float]) -> tuple[float, float]:
        """Return the mean and the spread that it would compare with after these values.

        Unlike `baselines`, it does without numpy, which a training process need not have loaded.
        """
        moments = SlidingMoments(self.rolling_window)
        for value in values:
            moments.update(value)
        return moments.mean, self._spread_of(moments)

    def scores(self, values: ArrayLike) -> NDArray[np.float64]:
        """Return the scores of all values of a series at once, as `update` would set them.

        It starts without a baseline and does not change the detector. A value in warm-up scores 0,
        one that is not finite scores infinity: an alert is wherever a score exceeds the threshold.
        """
        import numpy as np

        series = np.asarray(values, dtype=np.float64)
        if self.outlier_sigmas < inf:  # what is learnt depends on each score: one by one
            return np.array([again.score for again in self._one_by_one(series)])
        finite = np.isfinite(series)
        kept = series if finite.all() else series[finite]
        mean, spread = self._baselines(kept)
        with np.errstate(over="ignore", invalid="ignore"):
            z: NDArray[np.float64] = np.subtract(kept, mean, out=mean)
            z /= spread
        z[np.isnan(z)] = 0.0
        z[: self._silent_values] = 0.0
        if kept is series:
            return z
        scores = np.full(series.shape, inf)
        scores[finite] = z
        return scores

    def baselines(self, values: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the mean and the spread that each of these finite values is compared with.

        Like `scores`, it starts without a baseline and does not change the detector.
        """
        import numpy as np

        series = np.asarray(values, dtype=np.float64)
        if self.outlier_sigmas == inf:
            return self._baselines(series)
        found = [(again.mean, again.spread) for again in self._one_by_one(series)]
        both = np.array(found).reshape(-1, 2)
        return both[:, 0], both[:, 1]

    def _one_by_one(self, series: NDArray[np.float64]) -> Iterable[ZScoreDetector]:
        """Yield a new detector with these settings after each value."""
        again = copy(self)
        again.reset()
        for step, value in enumerate(series.tolist()):
            again.update(step, {self._metric: value})
            yield again

    def _baselines(
        self, kept: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        import numpy as np

        from klarm.stats.batch import sliding_moments

        size = self.rolling_window
        if self.baseline_mode == "rolling" or len(kept) <= size:
            mean, variance = sliding_moments(kept, size)
        else:
            mean, variance = (
                np.append(moment, np.full(len(kept) - size - 1, moment[size]))
                for moment in sliding_moments(kept[: size + 1], size)
            )
        with np.errstate(over="ignore", invalid="ignore"):
            spread = np.sqrt(np.maximum(variance, 0.0, out=variance), out=variance)
            np.maximum(spread, _MIN_RELATIVE_STD * np.abs(mean), out=spread)
            np.maximum(spread, self.min_std, out=spread)
        return mean, spread

    def _judge(self, step: int, value: float, z: float) -> Alert:
        severity: Severity = "critical" if z > self._threshold("critical") else "warning"
        case = "accepted" if self.baseline_mode == "frozen" and self._relearnt else ""
        learnt = float(min(self._seen, self.rolling_window))
        facts = {**self._context(z, severity), "spread": self.spread, "learnt": learnt}
        return self._alert(severity, step, value, facts, case=case or self.baseline_mode)

    def _not_finite(self, step: int, metric: str, value: float, _: Facts = NO_FACTS) -> Alert:
        return super()._not_finite(step, metric, value, self._context(value, "critical"))

    def _context(self, score: float, severity: Severity) -> dict[str, float | str]:
        """Return what a value was compared with."""
        # A frozen baseline is the level before any trouble. A rolling one soon contains it.
        came_from = {LEVEL_BEFORE: self.mean} if self._is_fixed else {}
        return {
            **came_from,
            "z_score": score,
            "baseline_mean": self._moments.mean,
            "baseline_std": self._moments.std,
            "baseline_mode": self.baseline_mode,
            "threshold": self._threshold(severity),
        }

    def _threshold(self, severity: Severity) -> float:
        return self.sigma_multiplier * (CRITICAL_FACTOR if severity == "critical" else 1.0)
