"""The base of detectors that compute their score only when it is read."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

from klarm.detectors.base import Detector


@dataclass(kw_only=True, eq=False)
class LazyScoreDetector(Detector):
    """A detector whose `_observe` sets no score unless it raises an alert.

    Counting shows whether a median is above a limit, and is much cheaper than the median itself.
    `_observe` must forget the score of the previous value: `self._score = None`.
    """

    @property
    def score(self) -> float:
        """The score of the last value, in the unit of the detector's threshold."""
        return self._compute_score() if self._score is None else self._score

    @score.setter
    def score(self, score: float | None) -> None:
        self._score = score

    @abstractmethod
    def _compute_score(self) -> float:
        """Return the score of the last value."""
