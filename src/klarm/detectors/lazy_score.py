"""Detectors that know that all is well without knowing how well: their score is made when asked."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

from klarm.detectors.base import Detector


@dataclass(kw_only=True, eq=False)
class LazyScoreDetector(Detector):
    """A detector whose `_observe` sets no score, unless it has an alert.

    Whether a median is above a limit can be told by counting, which costs a part of the median.
    `_observe` is to forget the score of the value before: `self._score = None`.
    """

    @property
    def score(self) -> float:
        """How far the last value is from alarm, in the unit of the detector's threshold."""
        return self._made_score() if self._score is None else self._score

    @score.setter
    def score(self, score: float | None) -> None:
        self._score = score

    @abstractmethod
    def _made_score(self) -> float:
        """Return the score of the last value."""
