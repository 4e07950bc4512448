"""Loss explosion: a loss is many times its highest recent value, and stays there."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from klarm.detectors.base import Detector
from klarm.settings import setting
from klarm.types import Alert, Severity

_LASTING = 5  # consecutive values, so that a spike does not count
_BEFORE, _MIN_BEFORE = 50, 10
_CRITICAL_FACTOR = 10.0
_HOW_FAR = (
    "{least}, {score} times the largest of the {before} before[ ({severity} above {threshold:g} "
    "times)]"
)


@dataclass(kw_only=True, eq=False)
class LossExplosionDetector(Detector):
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
    messages: ClassVar[Mapping[str, str]] = {
        "above": f"The last {_LASTING} values of {{metric}} are at least {_HOW_FAR}.",
        "below": f"The last {_LASTING} values of {{metric}} are at least {_HOW_FAR}.".replace(
            "{least}", "{least} in size"
        ),
    }
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

    def update(self, step: int, metrics: Mapping[str, float]) -> Alert | None:
        """Learn from one step; return an alert if a loss has exploded."""
        worst: Alert | None = None
        self.score = 0.0
        for name in self.watches:
            value = metrics.get(name)
            if value is None or value - value != 0.0:  # loss_nan reports those
                continue
            alert = self._observe(step, value, name)
            if worst is None or (alert is not None and alert.severity == "critical"):
                worst = alert
        return worst

    def _observe(self, step: int, value: float, name: str = watches[0]) -> Alert | None:
        sizes, size = self._sizes[name], abs(value)
        sizes.append(size)
        # Almost every loss is small, or at most `factor` times an earlier one.
        if size <= self.least_loss or size <= self.factor * sizes[0]:
            return None
        values = list(sizes)
        before, latest = values[:-_LASTING], values[-_LASTING:]
        if len(before) < self._min_before:
            return None
        least, largest = min(latest), max(before)
        growth = least / largest if largest > 0.0 else least
        self.score = max(self.score, growth if least > self.least_loss else 0.0)
        if growth <= self.factor or least <= self.least_loss:
            return None
        severity: Severity = "critical" if growth > _CRITICAL_FACTOR * self.factor else "warning"
        limit = self.factor * (_CRITICAL_FACTOR if severity == "critical" else 1.0)
        return Alert(
            detector=self.name,
            severity=severity,
            step=step,
            metric=name,
            metrics={
                name: value,
                "score": growth,
                "threshold": limit,
                "least": least,
                "before": float(len(before)),
            },
            decisive=True,
            case="below" if value < 0.0 else "above",
        )
