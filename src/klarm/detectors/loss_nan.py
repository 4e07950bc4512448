"""Loss NaN: a loss is NaN or infinite."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import ClassVar, Literal

from msgspec.structs import replace

from klarm.detectors.base import Detector, Shortcut
from klarm.detectors.not_finite import when_not_finite
from klarm.types import SEVERITIES, Alert, Severity

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
    shortcut: ClassVar[Shortcut] = "idle"
    recommendations: ClassVar[Mapping[Severity, str]] = dict.fromkeys(
        SEVERITIES, when_not_finite("loss")
    )

    def _start(self) -> None:
        pass

    def update(self, step: int, metrics: Mapping[str, float]) -> Alert | None:
        """Return an alert if a loss is not finite."""
        self.score = 0.0  # the last loss may have been infinite
        for metric in self.watches:
            value = metrics.get(metric)
            if value is not None and value - value != 0.0:
                self.score = inf
                alert = self._not_finite(step, value, _key(metric, metrics))
                if metric != _OTHER:
                    return alert
                return replace(alert, metrics={self.measures: value, **alert.metrics})
        return None

    def looks_at(self, metrics: Mapping[str, object]) -> bool:
        """Return whether these metrics contain a value that it judges."""
        return any(name in metrics for name in self.watches)

    def _observe(self, step: int, value: float) -> Alert | None:
        """Never called: `update` judges several losses."""
        raise NotImplementedError


def _key(metric: str, metrics: Mapping[str, float]) -> str:
    """Return the trainer's name of a loss: `other_loss` is in the row under that name, too."""
    if metric != _OTHER:
        return metric
    value = metrics[metric]
    same = (k for k, v in metrics.items() if k != metric and repr(v) == repr(value) and "loss" in k)
    return next(same, metric)
