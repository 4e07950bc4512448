"""Loss explosion: a loss is many times its highest recent value, and stays there."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from klarm.detectors.base import Shortcut
from klarm.detectors.lazy_score import LazyScoreDetector
from klarm.settings import setting
from klarm.text import number
from klarm.types import Alert, Severity

_LASTING = 5  # consecutive values, so that a spike does not count
_BEFORE, _MIN_BEFORE = 50, 10
_CRITICAL_FACTOR = 10.0


@dataclass(kw_only=True, eq=False)
class LossExplosionDetector(LazyScoreDetector):
    """Warns when the last five losses are all above `factor` times the largest of those before.

    Critical above ten times that. It compares absolute values, because the loss of a policy may
    have either sign, and ignores losses below `least_loss`, because many are 0 except for rounding.
    The losses of actor and critic are judged in the same way.

    >>> detector = LossExplosionDetector()
    >>> losses = [0.3, -0.2, 0.4] * 5 + [40.0] * 5
    >>> alerts = [detector.update(step, {"loss": loss}) for step, loss in enumerate(losses)]
    >>> [alert.step for alert in alerts if alert]
    [19]
    """

    name: ClassVar[str] = "loss_explosion"
    signal: ClassVar[str] = "loss"
    state_version: ClassVar[int] = 2
    recovery: ClassVar[Literal["level", "size", "quiet"]] = "size"
    watches: ClassVar[tuple[str, ...]] = ("loss", "actor_loss", "critic_loss")
    reads: ClassVar[tuple[str, ...]] = watches
    shortcut: ClassVar[Shortcut] = "alone"
    recommendations: ClassVar[Mapping[Severity, str]] = {
        "warning": (
            "Check the gradient norms and the parts of the loss: targets that grow without bound, "
            "ratios that are not clamped, a learning rate that is too high."
        ),
        "critical": (
            "Stop, and go back to a checkpoint from before the rise with a lower learning rate; "
            "clamp ratios and targets."
        ),
    }

    warmup_steps: int = setting(
        0,
        "number of first values to learn from; of these, only NaN and infinity raise an alert",
        at_least=0,
    )
    factor: float = setting(
        10.0,
        "warning above this many times the largest of the last fifty losses before, critical at "
        "ten times that",
        above=1,
    )
    least_loss: float = setting(1.0, "losses below this never count as exploded", above=0)

    def _start(self) -> None:
        # The absolute values of the last losses: the latest five and those before them.
        self._sizes: dict[str, deque[float]] = {
            name: deque(maxlen=_BEFORE + _LASTING) for name in self.watches
        }
        self._min_before = max(_MIN_BEFORE, self.warmup_steps)
        self._counted_values = -1  # it does not count them

    def update(self, step: int, metrics: Mapping[str, float]) -> Alert | None:
        """Learn from one step; return an alert if a loss has exploded."""
        worst: Alert | None = None
        self._score = None
        for name in self.watches:
            value = metrics.get(name)
            if value is None or value - value != 0.0:  # loss_nan reports those
                continue
            alert = self._observe(step, value, name)
            if worst is None or (alert is not None and alert.severity == "critical"):
                worst = alert
        return worst

    def _observe(self, step: int, value: float, name: str = watches[0]) -> Alert | None:
        self._score = None
        sizes, size = self._sizes[name], abs(value)
        sizes.append(size)
        # Almost every loss is small, or at most `factor` times an earlier one.
        if size <= self.least_loss or size <= self.factor * sizes[0]:
            return None
        return self._judge(step, name, value, list(sizes))

    def looks_at(self, metrics: Mapping[str, object]) -> bool:
        """Return whether these metrics contain a value that it judges."""
        return any(name in metrics for name in self.watches)

    def _compute_score(self) -> float:
        scores = [self._growth(list(sizes)) for sizes in self._sizes.values()]
        return max(score if least > self.least_loss else 0.0 for score, least in scores)

    def _growth(self, sizes: list[float]) -> tuple[float, float]:
        """Return the smallest of the latest over the largest before them, and the smallest."""
        before, latest = sizes[:-_LASTING], sizes[-_LASTING:]
        if len(before) < self._min_before:
            return 0.0, 0.0
        least, largest = min(latest), max(before)
        return least / largest if largest > 0.0 else least, least

    def _judge(self, step: int, name: str, value: float, sizes: list[float]) -> Alert | None:
        score, least = self._growth(sizes)
        if score <= self.factor or least <= self.least_loss:
            return None
        severity: Severity = "critical" if score > _CRITICAL_FACTOR * self.factor else "warning"
        limit = self.factor * (_CRITICAL_FACTOR if severity == "critical" else 1.0)
        size = " in size" if value < 0.0 else ""
        return Alert(
            detector=self.name,
            severity=severity,
            step=step,
            message=(
                f"The last {_LASTING} values of {name} are at least {number(least)}{size}, "
                f"{number(score)} times the largest of the {len(sizes) - _LASTING} before "
                f"({severity} above {limit:g} times)."
            ),
            metrics={name: value, "score": score, "threshold": limit},
            recommendation=self.recommendations[severity],
            decisive=True,
        )
