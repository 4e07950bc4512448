"""The catalogue of all detectors of klarm. A new one is one file and one line here."""

from __future__ import annotations

from klarm.detectors.advantage_variance import AdvantageVarianceDetector
from klarm.detectors.base import (
    CRITICAL_FACTOR,
    LEVEL_BEFORE,
    OTHER_METRIC,
    ROWS_BEYOND,
    Detector,
    Excused,
)
from klarm.detectors.clip_saturation import ClipSaturationDetector
from klarm.detectors.entropy_collapse import EntropyCollapseDetector
from klarm.detectors.gradient_norm_spike import GradientNormSpikeDetector
from klarm.detectors.installed import Installed, detector_problem, installed_detectors
from klarm.detectors.kl_budget import KLBudgetDetector
from klarm.detectors.kl_explosion import KLExplosionDetector
from klarm.detectors.kl_negative import KLNegativeDetector
from klarm.detectors.kl_probe import (
    KLProbeBudgetDetector,
    KLProbeExplosionDetector,
    KLProbeRunawayDetector,
)
from klarm.detectors.kl_runaway import KLRunawayDetector
from klarm.detectors.learning_rate_jump import LearningRateJumpDetector
from klarm.detectors.length_blowup import LengthBlowupDetector
from klarm.detectors.loss_explosion import LossExplosionDetector
from klarm.detectors.loss_nan import LossNanDetector
from klarm.detectors.metric_lost import MetricLostDetector
from klarm.detectors.reward_collapse import RewardCollapseDetector
from klarm.detectors.reward_drift import RewardDriftDetector
from klarm.detectors.reward_hacking import RewardHackingDetector
from klarm.detectors.rollout_mismatch import RolloutMismatchDetector
from klarm.detectors.trust_region import TrustRegionDetector
from klarm.detectors.zero_signal import ZeroSignalDetector
from klarm.detectors.zscore import ZScoreDetector

CATALOGUE: tuple[type[Detector], ...] = (
    KLExplosionDetector,
    KLRunawayDetector,
    KLBudgetDetector,
    KLNegativeDetector,
    KLProbeExplosionDetector,
    KLProbeRunawayDetector,
    KLProbeBudgetDetector,
    TrustRegionDetector,
    RolloutMismatchDetector,
    RewardHackingDetector,
    EntropyCollapseDetector,
    AdvantageVarianceDetector,
    GradientNormSpikeDetector,
    LearningRateJumpDetector,
    LossExplosionDetector,
    LossNanDetector,
    RewardDriftDetector,
    RewardCollapseDetector,
    ZeroSignalDetector,
    LengthBlowupDetector,
    ClipSaturationDetector,
    MetricLostDetector,
)

__all__ = [
    "CATALOGUE",
    "CRITICAL_FACTOR",
    "LEVEL_BEFORE",
    "OTHER_METRIC",
    "ROWS_BEYOND",
    "AdvantageVarianceDetector",
    "ClipSaturationDetector",
    "Detector",
    "EntropyCollapseDetector",
    "Excused",
    "GradientNormSpikeDetector",
    "Installed",
    "KLBudgetDetector",
    "KLExplosionDetector",
    "KLNegativeDetector",
    "KLProbeBudgetDetector",
    "KLProbeExplosionDetector",
    "KLProbeRunawayDetector",
    "KLRunawayDetector",
    "LearningRateJumpDetector",
    "LengthBlowupDetector",
    "LossExplosionDetector",
    "LossNanDetector",
    "MetricLostDetector",
    "RewardCollapseDetector",
    "RewardDriftDetector",
    "RewardHackingDetector",
    "RolloutMismatchDetector",
    "TrustRegionDetector",
    "ZScoreDetector",
    "ZeroSignalDetector",
    "detector_problem",
    "installed_detectors",
    "known_detectors",
    "known_signals",
]


def known_detectors() -> tuple[type[Detector], ...]:
    """Return klarm's detectors, then those of other packages. Not for `log`: it may import."""
    return (*CATALOGUE, *installed_detectors().kinds.values())


def known_signals() -> list[str]:
    """Return all signals that incidents may be about, sorted."""
    return sorted({kind.signal for kind in known_detectors()})
