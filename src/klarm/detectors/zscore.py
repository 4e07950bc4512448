"""The z-score rule that several detectors share: a value is far above its own past."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass
from math import inf, sqrt
from typing import TYPE_CHECKING, ClassVar

from klarm.detectors.base import LEVEL_BEFORE, Detector
from klarm.detectors.baseline_words import baseline_words
from klarm.settings import setting
from klarm.stats import SlidingMoments
from klarm.text import number
from klarm.types import Alert, Severity

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

# A smaller spread than this share of the mean is rounding, not noise.
_MIN_RELATIVE_STD = 0.01
_CRITICAL_FACTOR = 1.5


@dataclass(kw_only=True, eq=False)
class ZScoreDetector(Detector):
    """Warns when its metric is more than `sigma_multiplier` standard deviations above its baseline.

    Critical above 1.5 times that. The baseline is the mean and standard deviation of earlier
    values: the last `rolling_window` of them, or permanently the first ones if it is frozen. A
    rolling baseline catches spikes, but follows slow drift; a frozen one catches drift.
    """

    # The name of the metric in messages.
    label: ClassVar[str]
    # A value further out than this is judged, but not learnt: it would hide the next one.
    outlier_sigmas: ClassVar[float] = inf
    min_values: ClassVar[int] = 10

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
        self._rolls = self.baseline_mode == "rolling"
        self._is_fixed = False
        self._counted_values = max(self._silent_values, self.rolling_window)
        # The baseline that the last value was compared with.
        self.mean = 0.0
        self.spread = self.min_std

    def _observe(self, step: int, value: float) -> Alert | None:
        # The hot path, in one function for speed. `scores` does the same for a whole series and
        # must round in the same way.
        moments = self._moments
        if self._is_fixed:
            z = (value - self.mean) / self.spread
        else:
            mean = self.mean = moments.mean
            variance = moments.variance
            spread = 0.0 if variance <= 0.0 else sqrt(variance)  # a NaN stays a NaN
            least = _MIN_RELATIVE_STD * abs(mean)
            if spread < least:  # noqa: PLR1730  # faster than max
                spread = least
            if spread < self.min_std:  # noqa: PLR1730
                spread = self.min_std
            self.spread = spread
            z = (value - mean) / spread
        if z != z:  # noqa: PLR0124  # NaN: values above 1e150 overflow, so the spread is unknown
            z = 0.0
        self.score = z
        alert = self._judge(step, value, z) if z > self.sigma_multiplier else None
        if self._rolls or self._seen < self.rolling_window:
            if not (z > self.outlier_sigmas and self._seen >= self._silent_values):
                moments.update(value)
        else:
            self._is_fixed = True  # what was compared with now is compared with from now on
        return alert

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
        return moments.mean, max(moments.std, _MIN_RELATIVE_STD * abs(moments.mean), self.min_std)

    def scores(self, values: ArrayLike) -> NDArray[np.float64]:
        """Return the scores of all values of a series at once, as `update` would set them.

        It starts without a baseline and does not change the detector. A value in warm-up scores 0,
        one that is not finite scores infinity: an alert is wherever a score exceeds the threshold.
        """
        import numpy as np

        series = np.asarray(values, dtype=np.float64)
        if self.outlier_sigmas < inf:  # what is learnt depends on each score: one by one
            again = copy(self)
            again.reset()
            name = self._metric
            scored = []
            for step, value in enumerate(series.tolist()):
                again.update(step, {name: value})
                scored.append(again.score)
            return np.array(scored)
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
        again = copy(self)
        again.reset()
        found = []
        for step, value in enumerate(series.tolist()):
            again.update(step, {self._metric: value})
            found.append((again.mean, again.spread))
        both = np.array(found).reshape(-1, 2)
        return both[:, 0], both[:, 1]

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
        learnt = min(self._seen, self.rolling_window)
        baseline = baseline_words(self.baseline_mode, learnt, relearnt=self._relearnt)
        message = (
            f"{self.label} {number(value, 4)} is {number(z)}σ above {baseline} "
            f"{number(self.mean, 4)} ± {number(self.spread)} ({severity} above "
            f"{self._threshold(severity):g}σ)."
        )
        return self._alert(severity, step, value, message)

    def _details(self, value: float, score: float, severity: Severity) -> dict[str, float | str]:
        # A frozen baseline is the level before any trouble. A rolling one soon contains it.
        came_from = {LEVEL_BEFORE: self.mean} if self._is_fixed else {}
        return {
            **came_from,
            self._metric: value,
            "z_score": score,
            "baseline_mean": self._moments.mean,
            "baseline_std": self._moments.std,
            "baseline_mode": self.baseline_mode,
            "threshold": self._threshold(severity),
        }

    def _threshold(self, severity: Severity) -> float:
        return self.sigma_multiplier * (_CRITICAL_FACTOR if severity == "critical" else 1.0)
