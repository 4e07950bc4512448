"""Loss NaN: a loss is NaN or infinite."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import ClassVar, Literal

from klarm.detectors.base import Detector
from klarm.types import Alert, Severity

_OTHER = "other_loss"


@dataclass(kw_only=True, eq=False)
class LossNanDetector(Detector):
    """Critical at the first loss of any kind that is NaN or infinite, even during warm-up.

    Finite losses are ignored, because size and sign of a policy gradient loss mean little.

    >>> LossNanDetector().update(0, {"loss": float("nan")}).message
    'loss is NaN at this step; if it stays so, the run is broken.'
    """

    name: ClassVar[str] = "loss_nan"
    signal: ClassVar[str] = "loss"
    watches: ClassVar[tuple[str, ...]] = ("loss", "actor_loss", "critic_loss", _OTHER)
    reads: ClassVar[tuple[str, ...]] = watches
    recovery: ClassVar[Literal["level", "size", "quiet"]] = "quiet"
    messages: ClassVar[Mapping[str, str]] = {}  # klarm says alike of every metric that it is NaN
    recommendations: ClassVar[Mapping[Severity, str]] = {}

    def _start(self) -> None:
        pass

    def update(self, step: int, metrics: Mapping[str, float]) -> Alert | None:
        """Return an alert if a loss is not finite."""
        self.score = 0.0  # the last loss may have been infinite
        for metric in self.watches:
            value = metrics.get(metric)
            if value is not None and value - value != 0.0:
                self.score = inf
                if metric != _OTHER:
                    return self._not_finite(step, metric, value)
                return self._not_finite(step, _key(metrics), value, {self.measures: value})
        return None

    def _observe(self, step: int, value: float) -> Alert | None:
        """Never called: `update` judges several losses."""
        raise NotImplementedError


def _key(metrics: Mapping[str, float]) -> str:
    """Return the trainer's name of another loss: it is in the row under that name, too."""
    value = repr(metrics[_OTHER])
    named = (key for key in metrics if key != _OTHER and "loss" in key)
    return next((key for key in named if repr(metrics[key]) == value), _OTHER)
