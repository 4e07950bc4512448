"""Loss explosion: a loss is many times what it ever was, and stays there."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from klarm.detectors.base import Detector
from klarm.settings import setting
from klarm.types import Alert, Severity

_LASTING = 5  # values in a row: a spike is none
_BEFORE, _MIN_BEFORE = 50, 10
_CRITICAL_FACTOR = 10.0


@dataclass(kw_only=True, eq=False)
class LossExplosionDetector(Detector):
    """Warns when the last five losses are all above `factor` times the largest of those before.

    Critical above ten times that. By size, for a policy's loss has either sign, and only above
    `least_loss`: many a policy's loss is 0 but for rounding. The loss of a critic counts alike.

    >>> detector = LossExplosionDetector()
    >>> losses = [0.3, -0.2, 0.4] * 5 + [40.0] * 5
    >>> alerts = [detector.update(step, {"loss": loss}) for step, loss in enumerate(losses)]
    >>> [alert.step for alert in alerts if alert]
    [19]
    """

    name: ClassVar[str] = "loss_explosion"
    signal: ClassVar[str] = "loss"
    watches: ClassVar[tuple[str, ...]] = ("loss", "critic_loss")
    reads: ClassVar[tuple[str, ...]] = watches
    recommendations: ClassVar[Mapping[Severity, str]] = {
        "warning": (
            "Look at gradient norms and at what the loss is made of: targets that grow without "
            "bound, ratios that are not clamped, a learning rate that is too high."
        ),
        "critical": (
            "Stop, and go back to a checkpoint from before the rise with a lower learning rate; "
            "clamp ratios and targets."
        ),
    }

    warmup_steps: int = setting(0, "the first values, from which it only learns", at_least=0)
    factor: float = setting(
        10.0,
        "warning above this many times the largest of the last fifty losses before, critical at "
        "ten times that",
        above=1,
    )
    least_loss: float = setting(1.0, "a smaller loss than this has not exploded", above=0)

    def _start(self) -> None:
        self._sizes = {name: _Sizes() for name in self.watches}
        self._fewest = max(_MIN_BEFORE, self.warmup_steps)

    def update(self, step: int, metrics: Mapping[str, float]) -> Alert | None:
        """Learn from one step; return an alert if a loss has exploded."""
        worst: Alert | None = None
        self.score = 0.0
        for name, sizes in self._sizes.items():
            value = metrics.get(name)
            if value is None or value - value != 0.0:  # loss_nan speaks of those
                continue
            size = abs(value)
            sizes.update(size)
            if size > self.least_loss and len(sizes.before) >= self._fewest:
                alert = self._judge(step, name, sizes)
                if worst is None or (alert is not None and alert.severity == "critical"):
                    worst = alert
        return worst

    def looks_at(self, metrics: Mapping[str, object]) -> bool:
        """Tell whether there is anything for it in what was logged."""
        return any(name in metrics for name in self.watches)

    def _judge(self, step: int, name: str, sizes: _Sizes) -> Alert | None:
        least, largest = min(sizes.latest), sizes.largest_before
        score = least / largest if largest > 0.0 else least
        if score > self.score:  # noqa: PLR1730  # quicker than max
            self.score = score
        if score <= self.factor or least <= self.least_loss:
            return None
        severity: Severity = "critical" if score > _CRITICAL_FACTOR * self.factor else "warning"
        limit = self.factor * (_CRITICAL_FACTOR if severity == "critical" else 1.0)
        return Alert(
            detector=self.name,
            severity=severity,
            step=step,
            message=(
                f"The last {_LASTING} values of {name} are {least:.3g} or more, {score:.3g} times "
                f"the largest of the {len(sizes.before)} before ({severity} above {limit:g} times)."
            ),
            metrics={"loss": sizes.latest[-1], "score": score, "threshold": limit},
            recommendation=self.recommendations[severity],
            decisive=True,
        )

    def _observe(self, step: int, value: float, metrics: Mapping[str, float]) -> Alert | None:
        """Not asked: `update` looks at several losses."""
        raise NotImplementedError


class _Sizes:
    """The sizes of the latest losses, and those before them with the largest at hand."""

    __slots__ = ("before", "largest_before", "latest")

    def __init__(self) -> None:
        self.latest: deque[float] = deque(maxlen=_LASTING)
        self.before: deque[float] = deque(maxlen=_BEFORE)
        self.largest_before = 0.0

    def update(self, size: float) -> None:
        """Take in one more."""
        latest, before = self.latest, self.before
        if len(latest) == _LASTING:
            older = latest[0]
            leaving = before[0] if len(before) == _BEFORE else 0.0
            before.append(older)
            if older >= self.largest_before:
                self.largest_before = older
            elif leaving == self.largest_before:
                self.largest_before = max(before)
        latest.append(size)
