"""KL runaway: KL keeps running ahead of what its own growth predicts, suddenly or slowly."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from math import exp, inf, log
from typing import ClassVar

from klarm.detectors.base import Detector, Excused
from klarm.settings import setting
from klarm.stats import Forecast
from klarm.types import Alert, Severity, Worse

# Added to |KL| before its logarithm: below a thousandth of a nat nothing is worth an alarm.
_SMALLEST = 1e-3
# A KL of a few thousandths may double for no reason: an alarm takes a rise of this many nats.
_LEAST_RISE = 5e-3
_LARGEST_LOG = 700.0  # beyond this, exp overflows
_CRITICAL = 1.5
# KL is back where it was before a runaway when so many values in a row are no higher than was
# expected then, but for noise.
_BACK_STEPS = 10
# The level is noted four times a doubling of the run, first at a quarter of the step at which the
# slow test begins: 400. In a shorter run, healthy growth is still too steep.
_FIRST_NOTED_STEP, _NOTED_A_DOUBLING = 100, 4


@dataclass(frozen=True, kw_only=True)
class Constants:
    """What nobody should have to set; `make quality-grid` tries others and shows what they do."""

    # Healthy KL takes off within its first tens of steps. Until it is negligible, a floor that
    # falls with the cube of time has it judged in absolute terms.
    take_off_steps: float = 25.0
    # A step counts for this many noise units at most: it takes several to make a runaway.
    max_a_step: float = 2.5
    # A leap of so many noise units from one value to the next proves nothing, because spikes do
    # that. If the next value is as high, that one counts.
    leap: float = 5.0
    # The forecast learns from a value only when it is so old: otherwise the first steps of a
    # runaway would teach it that this is normal. Early in a run everything is new: there it is a
    # part of the run so far.
    learn_later_steps: int = 20
    learn_later_part: int = 12
    # Early on the forecast forgets faster, so that it follows the take-off: a step then weighs
    # three times its share of the run so far.
    early_weight: float = 3.0


@dataclass(kw_only=True, eq=False)
class KLRunawayDetector(Detector):
    """Warns when log KL keeps running ahead of the run's own extrapolated growth.

    Two tests, the worse counts. The quick one is a CUSUM: how far each value is above the
    forecast, beyond what the value before leads one to expect, in noise units, less an allowance,
    summed up. The slow one asks whether the level has risen since half-way through the run by
    `drift_factor` more than it did in the doubling before.
    When KL comes back from a runaway, the forecast is again what it was before: a second one finds
    it neither lifted nor widened by the first.
    The score is 1 at a warning and 1.5 at a critical alert. Both look at many steps, so an alert is
    decisive.

    >>> detector = KLRunawayDetector()
    >>> for step in range(200):
    ...     _ = detector.update(step, {"kl": 0.02 + 0.001 * (step % 3)})
    >>> [detector.update(200 + i, {"kl": 0.02 * 1.5**i}) is not None for i in range(8)]
    [False, False, False, False, False, True, True, True]
    """

    name: ClassVar[str] = "kl_runaway"
    signal: ClassVar[str] = "kl"
    watches: ClassVar[tuple[str, ...]] = ("kl",)
    excused_when: ClassVar[Excused] = "paid_for"
    constants: ClassVar[Constants] = Constants()
    recommendations: ClassVar[Mapping[Severity, str]] = {
        "warning": (
            "Compare with the reward: if it rises too and KL levels off, this is learning. If the "
            "reward is flat or jumps, lower the learning rate or raise the KL penalty."
        ),
        "critical": (
            "The policy is leaving its reference. Stop, go back to a checkpoint from before the "
            "rise, and remove the cause: a learning rate too high, a KL penalty too small, or a "
            "reward that can be gamed."
        ),
    }

    warmup_steps: int = setting(
        10, "number of first values that are learned from but never alerted on", at_least=0
    )
    memory_steps: int = setting(300, "number of steps that the forecast remembers", at_least=10)
    allowance: float = setting(1.1, "tolerance above the forecast, in noise units", above=0)
    patience: float = setting(
        5.0, "noise units above the allowance that add up to a warning", above=0
    )
    drift_factor: float = setting(
        1.7, "unexpected growth factor since the middle of the run that is a warning", above=1
    )

    def _start(self) -> None:
        constants = self.constants
        self._forecast = Forecast(
            self.memory_steps,
            early_weight=constants.early_weight,
            later_steps=constants.learn_later_steps,
            later_part=constants.learn_later_part,
            max_deviation=constants.max_a_step,
        )
        self._records = _Records()
        self._before: tuple[Forecast, _Records] | None = None  # a runaway, as long as one is near
        self._back = 0  # values in a row that are back where it was
        self._since = 0  # values since the last alert
        self._sum = 0.0
        self._ahead = 0.0  # how far the last value was above its forecast, in noise units
        self._foreseen = -inf  # the logarithm that was expected of the last value
        self._drift = log(self.drift_factor)
        self._take_off = constants.take_off_steps
        # By then the floor is down to a thousandth of a nat.
        self._early_steps = 10.0 * constants.take_off_steps
        self._leap, self._max_a_step = constants.leap, constants.max_a_step

    def _observe(self, step: int, value: float) -> Alert | None:
        if value == 0.0:  # not measured, or the very first steps: it says nothing of growth
            self.score = min(self.score, self._sum / self.patience)
            return None
        size = abs(value) + _SMALLEST
        logarithm = log(size)
        if self._before is not None:
            self._go_back_or_forget(*self._before, logarithm)
        forecast = self._forecast
        foreseen = self._foreseen = forecast.next
        if forecast.rows < self._early_steps:
            floor = (self._take_off / (forecast.rows + 1)) ** 3
            ahead = log((size + floor) / (_exp(foreseen) + floor)) / forecast.noise
        else:
            ahead = (logarithm - foreseen) / forecast.noise
        before, self._ahead = self._ahead, ahead
        leap = self._leap
        if before > leap or ahead - before <= leap:
            # Deviations that come in runs prove less: what the one before foretells is no news.
            news = (ahead - forecast.shared * before) / forecast.unshared
            total = self._sum - self.allowance
            total += news if news < self._max_a_step else self._max_a_step
            most = 2.0 * self.patience
            self._sum = 0.0 if total < 0.0 else most if total > most else total
        forecast.update(logarithm)
        level, records = forecast.level, self._records
        if level > records.highest or forecast.learnt >= records.next:
            records.update(forecast.learnt, level)
        # The level is slow to fall, so the value itself must be that high, too.
        rise = (level if level < logarithm else logarithm) - records.limit
        quick = self._sum / self.patience
        if quick > 1.0 and abs(value) < self._expected() + _LEAST_RISE:
            quick = 0.0  # this value does not run ahead, whatever has added up
        slow = rise / self._drift if rise > 0.0 else 0.0
        score = self.score = slow if slow > quick else quick
        if score <= 1.0:
            return None
        if self._before is None:
            self._before = forecast.without_latest(), copy(self._records)
        self._since = 0
        severity: Severity = "critical" if score > _CRITICAL else "warning"
        # A signed estimate counts by its size: it may run away downwards.
        if quick >= slow:
            sign = "" if value > 0.0 else "±"
            message = (
                f"KL is {value:.4g}, where its trend so far predicts {sign}{self._expected():.2g}."
            )
        else:
            message = (
                f"KL is at {value:.4g}: since half-way through the run "
                f"{'its level' if value > 0.0 else 'its size'} has grown ×{_exp(rise):.2g} more "
                "than in the doubling before."
            )
        worse: Worse = "higher" if value > 0.0 else "lower"
        return self._alert(severity, step, value, message, decisive=True, worse=worse)

    def _go_back_or_forget(self, forecast: Forecast, records: _Records, logarithm: float) -> None:
        """Take up what was known before a runaway once KL is back, if that is not long ago."""
        self._since += 1
        self._back = self._back + 1 if forecast.is_near(logarithm) else 0
        if self._back == _BACK_STEPS:
            forecast.rows = self._forecast.rows
            self._forecast, self._records = forecast, records
            self._sum = self._ahead = 0.0
        if self._back == _BACK_STEPS or self._since > self.memory_steps:
            self._before, self._back = None, 0

    def _expected(self) -> float:
        return max(_exp(self._foreseen) - _SMALLEST, 0.0)

    def _details(self, value: float, score: float, severity: Severity) -> dict[str, float | str]:
        return {
            self._metric: value,
            "score": score,
            "expected": self._expected(),
            "threshold": _CRITICAL if severity == "critical" else 1.0,
        }


class _Records:
    """The highest level so far, noted several times a doubling of the run."""

    def __init__(self) -> None:
        self.highest = -inf
        self._noted: list[float] = []
        self.next = float(_FIRST_NOTED_STEP)  # the row at which it is noted again
        # Where the level would be had it gone on rising as before: its record half-way, and the
        # rise in the doubling before that once more.
        self.limit = inf

    def update(self, rows: int, level: float) -> None:
        """Take in the level at a row: if it is a record, or time to note it."""
        self.highest = max(level, self.highest)
        if rows >= self.next:
            self.next *= 2.0 ** (1.0 / _NOTED_A_DOUBLING)
            noted = self._noted = [*self._noted[-2 * _NOTED_A_DOUBLING :], self.highest]
            if len(noted) > 2 * _NOTED_A_DOUBLING:
                self.limit = 2.0 * noted[_NOTED_A_DOUBLING] - noted[0]


def _exp(logarithm: float) -> float:
    return exp(logarithm if logarithm < _LARGEST_LOG else _LARGEST_LOG)
