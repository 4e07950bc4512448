"""Learning rate jump: the learning rate is many times its highest earlier value."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from klarm.detectors.base import OTHER_METRIC, Detector
from klarm.settings import setting
from klarm.stats import median, scatter
from klarm.types import Alert, Severity

# The metrics that suffer first when updates are too large.
_ENTROPY, _REWARD = "entropy", "reward"
# Their levels before the jump and now are medians of this many values.
_BEFORE, _NOW = 20, 5
_MIN_VALUES = 3
# Entropy has suffered when it is down to this share of its earlier level.
_ENTROPY_SHARE = 0.5
# Reward has suffered when it has fallen by this share of its level and by this many times its
# scatter.
_REWARD_SHARE, _REWARD_SCATTERS = 0.2, 2.0


_JUMPED = (
    "The learning rate has jumped from {jumped_from} to {value}, ×{score} (warning at "
    "×{threshold:g})"
)
_DAMAGE = f"{_JUMPED}, and since then {{while}} has fallen from {{fell_from}} to {{fell_to}}"
_Row = tuple[float | None, float | None]  # entropy and reward


@dataclass(kw_only=True, eq=False)
class LearningRateJumpDetector(Detector):
    """Warns if the learning rate is `factor` times its earlier peak. One alert opens an incident.

    No schedule does that: a warm-up grows by less per row, and a restart returns to an earlier
    value. Critical if entropy halves or reward falls within `watch_steps` of the jump, which also
    works where no KL is logged.

    >>> detector = LearningRateJumpDetector()
    >>> rates = [1e-5] * 30 + [1e-3] * 3
    >>> alerts = [detector.update(step, {"learning_rate": rate}) for step, rate in enumerate(rates)]
    >>> [alert.step for alert in alerts if alert]
    [30, 31, 32]
    """

    name: ClassVar[str] = "learning_rate_jump"
    signal: ClassVar[str] = "gradient"
    watches: ClassVar[tuple[str, ...]] = ("learning_rate", _ENTROPY, _REWARD)
    messages: ClassVar[Mapping[str, str]] = {
        "warning": f"{_JUMPED}.",
        "critical": f"{_DAMAGE}.",
        "critical by median": f"{_DAMAGE} (median of the last {{fell_rows}} rows).",
    }
    recommendations: ClassVar[Mapping[Severity, str]] = {
        "warning": (
            "Check whether the jump is intended: a wrong exponent, or a schedule that started "
            "again when the run was resumed? If it is not, lower the learning rate now."
        ),
        "critical": (
            "Stop, and go back to a checkpoint from before the jump with the old learning rate: "
            "lowering it in place rarely brings a policy back."
        ),
    }

    warmup_steps: int = setting(
        10,
        "number of first values to learn from; of these, only NaN and infinity raise an alert",
        at_least=0,
    )
    factor: float = setting(
        5.0, "warning when the learning rate is this many times its highest earlier value", above=1
    )
    watch_steps: int = setting(
        50,
        "number of values after a jump in which other metrics are watched for damage",
        at_least=1,
    )

    def _start(self) -> None:
        self._highest = 0.0
        self._jumped_from = 0.0
        self._left = 0  # number of values for which it still watches for damage
        self._damage: dict[str, float | str] = {}  # what has suffered, and how far
        # Entropy and reward of the current step, and of the earlier ones since the last jump.
        self._step: int | None = None
        self._row: _Row = (None, None)
        self._rows: deque[_Row] = deque(maxlen=_BEFORE)
        self._before: list[_Row] = []

    def _note(self, step: int, metrics: Mapping[str, float]) -> None:
        # Entropy and reward may come in another dict of the step than the learning rate, so they
        # are judged with the next step.
        get = metrics.get
        if step != self._step:
            self._step = step
            self._rows.append(self._row)
            self._row = get(_ENTROPY), get(_REWARD)
        else:
            entropy, reward = self._row
            self._row = get(_ENTROPY, entropy), get(_REWARD, reward)

    def _observe(self, step: int, value: float) -> Alert | None:
        highest = self._highest
        if value <= highest and not self._left:  # the usual case
            self.score = value / highest if highest else 0.0
            return None
        if value > highest:
            self._highest = value
        self.score = value / highest if highest > 0.0 else 0.0
        if self._seen >= self._silent_values and highest > 0.0 and self.score >= self.factor:
            self._jumped_from, self._left, self._damage = highest, self.watch_steps, {}
            self._before = list(self._rows)
            self._rows.clear()
        if not self._left or value < self.factor * self._jumped_from:
            self._left = 0
            return None
        self._left -= 1
        self.score = value / self._jumped_from
        self._damage = self._damage or self._what_suffered()
        severity: Severity = "critical" if self._damage else "warning"
        facts = {
            "score": self.score,
            "threshold": self.factor,
            "jumped_from": self._jumped_from,
            **self._damage,
        }
        case = "critical by median" if "fell_rows" in self._damage else ""
        return self._alert(severity, step, value, facts, case=case, decisive=True)

    def _what_suffered(self) -> dict[str, float | str]:
        """Return which metric has suffered, and how far; nothing if none has."""
        for place, name in enumerate((_ENTROPY, _REWARD)):
            before = _finite(self._before, place)
            latest = _finite(self._rows, place)[-_NOW:]
            if len(latest) < _MIN_VALUES or len(before) < _MIN_VALUES:
                continue
            was, now = median(before), median(latest)
            is_down = (
                0.0 < now <= _ENTROPY_SHARE * was
                if name == _ENTROPY
                else was - now
                > max(_REWARD_SHARE * abs(was), _REWARD_SCATTERS * scatter(before, was))
            )
            if not is_down:
                continue
            damage: dict[str, float | str] = {OTHER_METRIC: name, "fell_from": was}
            # The median of a fall may be a value long past. The last one may also be back for once.
            last = _finite([*self._rows, self._row], place)[-1]
            if last <= now:
                return {**damage, "fell_to": last}
            return {**damage, "fell_to": now, "fell_rows": float(len(latest))}
        return {}


def _finite(rows: Iterable[_Row], place: int) -> list[float]:
    found = (row[place] for row in rows)
    return [value for value in found if value is not None and value - value == 0.0]
