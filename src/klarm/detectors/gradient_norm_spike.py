"""Gradient norm spike: the gradient is far larger than it was at the start of the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from klarm.detectors.zscore import ZScoreDetector
from klarm.settings import setting
from klarm.types import Severity


@dataclass(kw_only=True, eq=False)
class GradientNormSpikeDetector(ZScoreDetector):
    """Warns when the gradient norm is more than `sigma_multiplier` deviations above its baseline.

    Critical beyond 1.5 times that. The baseline is frozen by default: in good health the gradient
    norm stays level or falls, so a rise that lasts is news. Lone spikes are common on healthy runs
    and open no incident.

    >>> detector = GradientNormSpikeDetector()
    >>> for step in range(120):
    ...     _ = detector.update(step, {"grad_norm": 0.5 + 0.05 * (step % 3)})
    >>> detector.update(120, {"grad_norm": 2.0}).severity
    'critical'
    """

    name: ClassVar[str] = "gradient_norm_spike"
    signal: ClassVar[str] = "gradient"
    watches: ClassVar[tuple[str, ...]] = ("grad_norm",)
    recovery: ClassVar[Literal["level", "size", "quiet"]] = "quiet"
    outlier_sigmas: ClassVar[float] = 10.0
    # With float16 an infinite gradient is routine: the loss scaler skips the step.
    not_finite_is_decisive: ClassVar[bool] = False
    recommendations: ClassVar[Mapping[Severity, str]] = {
        "warning": (
            "Check that gradients are clipped. If more spikes follow, lower the learning rate or "
            "clip at a smaller norm."
        ),
        "critical": (
            "Lower the learning rate, or clip gradients at a smaller norm. If loss or KL has risen "
            "with them, go back to a checkpoint from before the spikes."
        ),
    }

    baseline_mode: str = setting(
        "frozen",
        "frozen: always the first values, which catches a lasting rise; rolling: the latest ones",
        choices=("rolling", "frozen"),
    )
