"""Loss NaN: the loss is no longer a number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from klarm.detectors.base import Detector, when_not_finite
from klarm.types import SEVERITIES, Alert, Severity


@dataclass(kw_only=True, eq=False)
class LossNanDetector(Detector):
    """Critical at the first loss that is NaN or infinite, in warm-up too.

    The base class does all of that. A finite loss says nothing: in policy gradients its size and
    sign mean little.

    >>> LossNanDetector().update(0, {"loss": float("nan")}).message
    'loss is NaN: the numbers of this run have broken down.'
    """

    name: ClassVar[str] = "loss_nan"
    signal: ClassVar[str] = "loss"
    watches: ClassVar[tuple[str, ...]] = ("loss",)
    recovery: ClassVar[Literal["level", "quiet"]] = "quiet"
    recommendations: ClassVar[Mapping[Severity, str]] = dict.fromkeys(
        SEVERITIES, when_not_finite("loss")
    )

    def _start(self) -> None:
        pass

    def _observe(self, step: int, value: float, metrics: Mapping[str, float]) -> Alert | None:  # noqa: ARG002
        self.score = 0.0  # an infinite one before it has passed
        return None
