"""The catalogue: every detector klarm has. A new one is one file and one line here."""

from __future__ import annotations

from klarm.detectors.base import Detector
from klarm.detectors.kl_explosion import KLExplosionDetector
from klarm.detectors.kl_runaway import KLRunawayDetector

CATALOGUE: tuple[type[Detector], ...] = (
    KLExplosionDetector,
    KLRunawayDetector,
)

__all__ = [
    "CATALOGUE",
    "Detector",
    "KLExplosionDetector",
    "KLRunawayDetector",
]
