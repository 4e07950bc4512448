"""The catalogue: every detector klarm has. A new one is one file and one line here."""

from __future__ import annotations

from klarm.detectors.advantage_variance import AdvantageVarianceDetector
from klarm.detectors.base import Detector
from klarm.detectors.entropy_collapse import EntropyCollapseDetector
from klarm.detectors.kl_explosion import KLExplosionDetector
from klarm.detectors.kl_runaway import KLRunawayDetector
from klarm.detectors.reward_hacking import RewardHackingDetector

CATALOGUE: tuple[type[Detector], ...] = (
    KLExplosionDetector,
    KLRunawayDetector,
    RewardHackingDetector,
    EntropyCollapseDetector,
    AdvantageVarianceDetector,
)

__all__ = [
    "CATALOGUE",
    "AdvantageVarianceDetector",
    "Detector",
    "EntropyCollapseDetector",
    "KLExplosionDetector",
    "KLRunawayDetector",
    "RewardHackingDetector",
]
