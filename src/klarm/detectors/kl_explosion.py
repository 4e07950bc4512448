"""KL explosion: KL to the reference model is far above its own recent past."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from klarm.detectors.base import Excused
from klarm.detectors.zscore import ZScoreDetector
from klarm.settings import setting
from klarm.types import Severity


@dataclass(kw_only=True, eq=False)
class KLExplosionDetector(ZScoreDetector):
    """Warns when KL is more than `sigma_multiplier` standard deviations above its baseline.

    Critical above 1.5 times that. A rolling baseline catches spikes, but follows slow drift; a
    frozen one catches drift.

    >>> detector = KLExplosionDetector()
    >>> for step in range(50):
    ...     _ = detector.update(step, {"kl": 0.02 + 0.001 * (step % 3)})
    >>> detector.update(50, {"kl": 0.04}).severity
    'critical'
    """

    name: ClassVar[str] = "kl_explosion"
    signal: ClassVar[str] = "kl"
    counts_held_values: ClassVar[bool] = True  # as specified
    watches: ClassVar[tuple[str, ...]] = ("kl",)
    excused_when: ClassVar[Excused] = "paid_for"
    recommendations: ClassVar[Mapping[Severity, str]] = {
        "warning": (
            "Watch the next steps closely and be ready to raise the KL penalty. "
            "A single spike that falls back is usually harmless; a series of spikes is not."
        ),
        "critical": (
            "Act now: lower the learning rate or raise the KL penalty. If KL stays up, consider "
            "going back to a checkpoint from before the rise, with a stronger penalty."
        ),
    }

    # The rule marks spikes and, in a healthy take-off, series of them. It therefore opens an
    # incident by itself only after a long time; other detectors know healthy growth.
    confirm_steps: int = setting(
        50,
        "consecutive rows in alert that open an incident, unless one alert is enough; 0: as set "
        "under incidents",
        at_least=0,
    )
    excusable: bool = setting(
        True, "whether other signals may explain an alert, so that it opens no incident"
    )
    clip_region: float = setting(
        0.2, "PPO clip range of the run, shown in alerts for context", above=0
    )

    @property
    def excuse(self) -> Excused:
        """Empty if the user wants the rule exactly as specified."""
        return self.excused_when if self.excusable else ""

    def _context(self, score: float, severity: Severity) -> dict[str, float | str]:
        return {**super()._context(score, severity), "clip_region": self.clip_region}
