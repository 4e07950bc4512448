"""KL runaway: KL grows faster than its own history predicts, suddenly or slowly."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from math import exp, inf, log
from typing import ClassVar

from klarm.detectors.base import CRITICAL_FACTOR, LEVEL_BEFORE, Detector, Excused
from klarm.settings import setting
from klarm.stats import Forecast
from klarm.types import Alert, Severity, Worse

# The constants from here to the class `Constants` were chosen by hand, on the runs for tuning that
# docs/quality.md describes. They are not in the grid of `make quality-grid`.

# Added to |KL| before the logarithm is taken: changes below a thousandth of a nat hardly count.
_OFFSET_NATS = 1e-3
# A KL of a few thousandths may double by chance, so the quick test also needs this absolute rise.
_MIN_RISE_NATS = 5e-3
_MAX_LOG = 700.0  # exp overflows a float above 709
_SLOW = "second half of the run, after ×{earlier_growth} in the quarter before"
_SLOW_LIMIT = "[ ({severity} at ×{allowed_growth})]"
# KL has recovered from a runaway after this many consecutive values that are no higher than the
# forecast from before it, plus noise: several, so that a short dip is not taken for a recovery. Ten
# was chosen by hand; not measured.
_BACK_STEPS = 10
# The slow test compares a doubling of the run with the doubling before. It must not begin before
# row 400, because healthy growth is still too steep there: two doublings after the first note.
_FIRST_NOTED_STEP = 100
# Four notes per doubling keep the level "half-way through the run" accurate to within 19 %.
_NOTES_PER_DOUBLING = 4


@dataclass(frozen=True, kw_only=True)
class Constants:
    """Constants that users need not set.

    A random search on the runs for tuning gave their values, and the search for better ones, of
    which docs/quality.md reports, changed none of them; `make quality-grid` tries others.
    The comments say what happens on the generated runs if a mechanism is switched off, as measured
    for docs/quality.md. With the values chosen, 1.8 % of the healthy runs have an incident, and
    explosions are found after 1.65 times the delay of an oracle.
    """

    # Healthy KL takes off within its first tens of steps. Early values are therefore judged in
    # absolute terms: a floor of (take_off_steps / step)³ nats is added, which is negligible after
    # ten times as many steps. Without the floor, 6.4 % of the healthy runs have an incident.
    take_off_steps: float = 25.0
    # One step counts for at most this many noise units, so that a runaway takes several. Without
    # this limit, 41 % of the healthy runs have an incident.
    max_per_step: float = 2.5
    # A value this many noise units further ahead than the previous one does not count, because
    # spikes do that. If the next value is as high, that one counts. If leaps count as well, 2.8 %
    # of the healthy runs have an incident.
    leap: float = 5.0
    # The forecast learns from a value only this many steps later: otherwise it would learn that the
    # first steps of a runaway are normal. If it learns immediately, explosions are found after 2.45
    # times the delay of the oracle.
    learn_later_steps: int = 20
    # Early in a run the delay is 1/learn_later_part of the run so far, so that there is a forecast
    # at all. With the same delay early on, 3.2 % of the healthy runs have an incident.
    learn_later_part: int = 12
    # Early in a run a value has this many times the weight of an average over all values, so that
    # the forecast follows the take-off. With a weight of 1, the delay is 2.52 times the oracle's.
    early_weight: float = 3.0


@dataclass(kw_only=True, eq=False)
class KLRunawayDetector(Detector):
    """Warns when log KL keeps exceeding the extrapolated growth of the run.

    There are two tests, and the higher score counts.

    The quick test is a CUSUM. It measures how many noise units each value is above the forecast,
    subtracts what the previous value predicts (autocorrelation) and an allowance, and adds up the
    rest.

    The slow test, from step 400 on, compares growth: at step n, the growth from n/2 to n with the
    growth from n/4 to n/2. A warning if it is `drift_factor` times as much.

    When KL recovers from a runaway, the forecast from before it is restored, so that a second
    runaway is detected as early as the first. The score is 1 at a warning and 1.5 at a critical
    alert. Both tests look at many steps, so one alert opens an incident.

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
    messages: ClassVar[Mapping[str, str]] = {
        "quick": "KL is {value:4}; its trend predicted {expected:2}.",
        "quick below": "KL is {value:4}; its trend predicted ±{expected:2}.",
        "slow": "KL is {value:4}. Its smoothed level has grown ×{growth} in the "
        f"{_SLOW}{_SLOW_LIMIT}.",
        "slow below": "KL is {value:4}. Its smoothed absolute value has grown ×{growth} in the "
        f"{_SLOW}{_SLOW_LIMIT}.",
        # What incidents/restated.py makes of an alert whose trend has learnt the explosion.
        "since_onset": "KL is {value:4}; just before step {onset:d} it was {before}.",
        "long_since_onset": "KL is {value:4}; it has been far from its earlier level since step "
        "{onset:d}.",
    }
    recommendations: ClassVar[Mapping[Severity, str]] = {
        "warning": (
            "Compare with the reward: if it rises and KL levels off, this is learning. If the "
            "reward is flat or jumps, lower the learning rate or raise the KL penalty."
        ),
        "critical": (
            "Stop, go back to a checkpoint from before KL ran away, and remove the cause: a "
            "learning rate too high, a KL penalty too small, or a reward that can be gamed."
        ),
    }

    # Ten was chosen by hand. It makes no difference on the generated runs for tuning: with 0 or 20,
    # the first alerts are in the same rows.
    warmup_steps: int = setting(
        10,
        "number of first values to learn from; of these, only NaN and infinity raise an alert",
        at_least=0,
    )
    # docs/quality.md says how the next four were chosen, and what has not been run to its end.
    # A round of the grid changed this one from 200.
    memory_steps: int = setting(300, "number of values that the forecast remembers", at_least=10)
    # From the random search; nothing else in the grid was better.
    allowance: float = setting(1.1, "tolerance above the forecast, in noise units", above=0)
    # The grid preferred 4.75 until at most 1.8 % of the healthy runs were to have an incident.
    patience: float = setting(
        5.0, "noise units above the allowance that add up to a warning", above=0
    )
    # A round of the grid changed this one from 1.8. Without the slow test, 33 % of the drifts are
    # found instead of 94 %.
    drift_factor: float = setting(
        1.7,
        "warning when growth since the middle of the run is this many times the growth before",
        above=1,
    )

    def _start(self) -> None:
        constants = self.constants
        self._forecast = Forecast(
            self.memory_steps,
            early_weight=constants.early_weight,
            later_steps=constants.learn_later_steps,
            later_part=constants.learn_later_part,
            max_deviation=constants.max_per_step,
        )
        self._records = _Records()
        # The state from before a runaway, while KL may still return to it.
        self._before: tuple[Forecast, _Records] | None = None
        self._back = 0  # consecutive values that are back at that level
        self._since = 0  # values since the last alert
        self._sum = 0.0
        self._ahead = 0.0  # the distance of the last value above its forecast, in noise units
        self._foreseen = -inf  # the forecast of the last logarithm
        self._drift = log(self.drift_factor)
        self._take_off = constants.take_off_steps
        # The floor is then down to a thousandth of a nat.
        self._early_steps = 10.0 * constants.take_off_steps
        self._leap, self._max_per_step = constants.leap, constants.max_per_step

    def _observe(self, step: int, value: float) -> Alert | None:
        if value == 0.0:  # not measured, or the very first steps: says nothing about growth
            self.score = min(self.score, self._sum / self.patience)
            return None
        size = abs(value) + _OFFSET_NATS
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
            # Autocorrelated deviations prove less: the part that the last one predicts is not new.
            news = (ahead - forecast.shared * before) / forecast.unshared
            total = self._sum - self.allowance
            total += news if news < self._max_per_step else self._max_per_step
            max_sum = 2.0 * self.patience  # so that the sum falls again soon after a runaway
            self._sum = 0.0 if total < 0.0 else max_sum if total > max_sum else total
        forecast.update(logarithm)
        level, records = forecast.level, self._records
        if level > records.highest or forecast.learnt >= records.next:
            records.update(forecast.learnt, level)
        # The level falls slowly, so the value itself must be that high, too.
        rise = (level if level < logarithm else logarithm) - records.limit
        quick = self._sum / self.patience
        if quick > 1.0 and abs(value) < self._expected() + _MIN_RISE_NATS:
            quick = 0.0  # this value itself is as expected, whatever the sum is
        slow = rise / self._drift if rise > 0.0 else 0.0
        score = self.score = slow if slow > quick else quick
        if score <= 1.0:
            return None
        if self._before is None:
            self._before = forecast.without_latest(), copy(self._records)
        self._since = 0
        severity: Severity = "critical" if score > CRITICAL_FACTOR else "warning"
        threshold = CRITICAL_FACTOR if severity == "critical" else 1.0
        facts = {"score": score, "expected": self._expected(), "threshold": threshold}
        case = "quick"
        if slow > quick:
            case = "slow"
            earlier = records.limit - records.middle
            facts |= {
                "growth": _exp(rise + earlier),
                "earlier_growth": _exp(earlier),
                "allowed_growth": _exp(earlier + self._drift * threshold),
            }
            if value > 0.0:
                facts[LEVEL_BEFORE] = max(_exp(records.middle) - _OFFSET_NATS, 0.0)
        # A signed estimate is judged by its absolute value: it may also run away downwards.
        worse: Worse = "higher" if value > 0.0 else "lower"
        case += "" if value > 0.0 else " below"
        return self._alert(severity, step, value, facts, case=case, decisive=True, worse=worse)

    def _go_back_or_forget(self, forecast: Forecast, records: _Records, logarithm: float) -> None:
        """Restore the state from before a runaway once KL is back, unless that was long ago."""
        self._since += 1
        self._back = self._back + 1 if forecast.is_near(logarithm) else 0
        if self._back == _BACK_STEPS:
            forecast.rows = self._forecast.rows
            self._forecast, self._records = forecast, records
            self._sum = self._ahead = 0.0
        if self._back == _BACK_STEPS or self._since > self.memory_steps:
            self._before, self._back = None, 0

    def _expected(self) -> float:
        return max(_exp(self._foreseen) - _OFFSET_NATS, 0.0)


class _Records:
    """The highest level so far, noted several times per doubling of the run."""

    def __init__(self) -> None:
        self.highest = -inf
        self._noted: list[float] = []
        self.next = float(_FIRST_NOTED_STEP)  # the row of the next note
        self.middle = -inf  # the highest level half-way through the run
        # The level if growth had continued as before: that level plus the rise in the doubling
        # before it.
        self.limit = inf

    def update(self, rows: int, level: float) -> None:
        """Add the level at a row. Only needed if it is a record or if a note is due."""
        self.highest = max(level, self.highest)
        if rows >= self.next:
            self.next *= 2.0 ** (1.0 / _NOTES_PER_DOUBLING)
            noted = self._noted = [*self._noted[-2 * _NOTES_PER_DOUBLING :], self.highest]
            if len(noted) > 2 * _NOTES_PER_DOUBLING:
                self.middle = noted[_NOTES_PER_DOUBLING]
                self.limit = 2.0 * self.middle - noted[0]


def _exp(logarithm: float) -> float:
    return exp(logarithm if logarithm < _MAX_LOG else _MAX_LOG)
