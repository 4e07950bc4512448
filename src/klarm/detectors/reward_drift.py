"""Reward drift: reward has moved in one direction, and another metric shows that this is bad."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from klarm.detectors.base import LEVEL_BEFORE, OTHER_METRIC, Detector, Excused
from klarm.settings import setting
from klarm.stats import MAD_TO_STD, median
from klarm.types import Alert, Severity, Worse

_BLOCKS = 4
# The number of newest rewards that must still be high for a rise to count.
_NEWEST = 3
# A spread below this share of the level is rounding, not noise.
_MIN_RELATIVE_SPREAD = 0.01
_MIN_SPREAD = 1e-300  # prevents a division by zero

_SENTENCE = (
    "Reward {went} from {{level_before}} to {{level}} while {other} from {{other_before}} to "
    "{{other_level}} (medians of the {{rows}} rows up to step {{first_end:d}} and up to step "
    "{{last_end:d}})."
)
_Row = list[float | None]  # in the order of `watches`


class _Move(NamedTuple):
    """The movement of a metric: its first and last level, and the distance in units of noise.

    The distance is 0 if it went up and down, or was not logged.
    """

    first: float = 0.0
    last: float = 0.0
    units: float = 0.0
    medians: tuple[float, float] = (0.0, 0.0)  # the same levels as exact medians


@dataclass(kw_only=True, eq=False)
class RewardDriftDetector(Detector):
    """Warns when reward and another metric move together in a way that is not learning.

    That is: reward falls while KL or entropy rises, or reward rises while length multiplies or
    entropy collapses. The last `drift_steps` values are divided into four blocks. A metric has
    moved if the medians of the oldest and the newest block are the extremes, and differ by more
    than `noise_units` times the scatter within a block. There is one check per block, whose result
    holds until the next one. One alert opens an incident, because a drift has
    lasted by then.

    >>> detector = RewardDriftDetector()
    >>> alerts = [
    ...     detector.update(step, {"reward": 1 - 0.01 * step, "kl": 0.01 * step})
    ...     for step in range(100)
    ... ]
    >>> print(*(alert.message for alert in alerts if alert))  # doctest: +NORMALIZE_WHITESPACE
    Reward fell from 0.88 to 0.13 while KL rose from 0.12 to 0.87
    (medians of the 25 rows up to step 24 and up to step 99).
    """

    name: ClassVar[str] = "reward_drift"
    signal: ClassVar[str] = "reward"
    watches: ClassVar[tuple[str, ...]] = ("reward", "kl", "kl_old", "length", "entropy")
    excused_when: ClassVar[Excused] = "taking_off"
    messages: ClassVar[Mapping[str, str]] = {
        "fell, kl": _SENTENCE.format(went="fell", other="KL rose"),
        "fell, kl_old": _SENTENCE.format(went="fell", other="the KL of updates rose"),
        "fell, entropy": _SENTENCE.format(went="fell", other="entropy rose"),
        "rose, length": _SENTENCE.format(went="rose", other="length grew"),
        "rose, entropy": _SENTENCE.format(went="rose", other="entropy fell"),
    }
    recommendations: ClassVar[Mapping[Severity, str]] = {
        "warning": (
            "Read samples from before and from now. If they are worse, go back to a checkpoint "
            "from before the drift and lower the learning rate or raise the KL penalty; if the "
            "reward pays for length or for one phrase, fix the reward first."
        ),
        "critical": "Stop the run and look at where the reward comes from.",
    }

    drift_steps: int = setting(100, "number of values that a drift must last", at_least=20)
    noise_units: float = setting(
        1.0, "minimum movement of a metric, in standard deviations of its noise", above=0
    )
    length_factor: float = setting(
        3.0, "growth factor at which a length counts as running away", at_least=1
    )
    entropy_share: float = setting(
        0.3, "share of its earlier level at which entropy counts as collapsed", above=0
    )

    @property
    def rows_per_check(self) -> int:
        """The number of rows in a block."""
        return self.drift_steps // _BLOCKS

    def _start(self) -> None:
        self._size = self.rows_per_check
        self._step: int | None = None  # the current step, and what was logged at it
        self._row: _Row = []
        # The steps with a reward: those of the current block, and the last four blocks.
        self._rows: list[_Row] = []
        self._latest: list[float] = []  # their rewards
        self._blocks: list[list[_Row]] = []
        self._rewards: list[_Values] = []  # the rewards of each of these blocks
        self._ends: list[int] = []  # and their last steps
        self._units = 0.0
        self._facts: dict[str, float | str] = {}  # how reward and another metric have moved
        self._case = ""

    def _note(self, step: int, metrics: Mapping[str, float]) -> None:
        # The other metrics may come in another dict of the step than the reward.
        if step != self._step:
            self._step = step
            self._row = [*map(metrics.get, self.watches)]
        else:
            for place, name in enumerate(self.watches):
                self._row[place] = metrics.get(name, self._row[place])

    def _observe(self, step: int, value: float) -> Alert | None:
        self._rows.append(self._row)
        self._latest.append(value)
        if len(self._latest) == self._size:
            self._blocks = [*self._blocks[1 - _BLOCKS :], self._rows]
            self._rewards = [*self._rewards[1 - _BLOCKS :], _Values(self._latest)]
            self._ends = [*self._ends[1 - _BLOCKS :], step]
            self._rows, self._latest = [], []
            self._check()
        self.score = self._units
        if not self._facts:
            return None
        worse: Worse = "lower" if self._case.startswith("fell") else "higher"
        facts = {"score": self._units, **self._facts}
        return self._alert(
            "warning", step, value, facts, case=self._case, decisive=True, worse=worse
        )

    def _check(self) -> None:
        """Set how far the clearest drift has gone, and the facts if that is too far."""
        self._units, self._facts = 0.0, {}
        # Most checks end here. Code that runs so rarely is slow, so there should be little of it.
        medians = [block.median for block in self._rewards]
        if len(medians) < _BLOCKS or not _has_direction(medians):
            return
        reward = self._moved(self._rewards)
        if abs(reward.units) <= self.noise_units:
            return
        found: list[tuple[float, str, _Move]] = []
        if reward.units < 0:
            for metric in ("kl", "kl_old", "entropy"):
                move = self._move(metric)
                found.append((move.units, metric, move))
        else:
            if self._has_turned(reward):
                return
            length, entropy = self._move("length"), self._move("entropy")
            if length.last >= self.length_factor * length.first:
                found.append((length.units, "length", length))
            # A differential entropy can be negative, and shares of it mean nothing.
            if 0.0 <= entropy.last <= self.entropy_share * entropy.first:
                found.append((-entropy.units, "entropy", entropy))
        units, metric, other = max(found, default=(0.0, "", reward))
        self._units = max(0.0, min(units, abs(reward.units)))
        if self._units > self.noise_units:
            self._case = f"{'fell' if reward.units < 0 else 'rose'}, {metric}"
            self._facts = {
                OTHER_METRIC: metric,
                LEVEL_BEFORE: reward.medians[0],
                "level": reward.medians[1],
                "other_before": other.medians[0],
                "other_level": other.medians[1],
                "rows": float(self._size),
                "first_end": float(self._ends[0]),
                "last_end": float(self._ends[-1]),
            }

    def _has_turned(self, reward: _Move) -> bool:
        """Return whether the newest rewards have lost half of the rise.

        If rewards are means over many episodes, the median of a block hides a collapse.
        """
        newest = _median(self._rewards[-1].values[-_NEWEST:])
        return newest < reward.first + (reward.last - reward.first) / 2.0

    def _move(self, metric: str) -> _Move:
        place = self.watches.index(metric)
        return self._moved([_Values(_column(block, place)) for block in self._blocks])

    def _moved(self, blocks: Sequence[_Values]) -> _Move:
        if len(blocks) < _BLOCKS or min(len(block.values) for block in blocks) * 2 < self._size:
            return _Move()
        medians = [block.median for block in blocks]
        if not _has_direction(medians):
            return _Move()
        first, last = medians[0], medians[-1]
        noise = max(
            MAD_TO_STD * _median([block.spread() for block in blocks]),
            _MIN_RELATIVE_SPREAD * max(abs(first), abs(last)),
            _MIN_SPREAD,
        )
        units = (last - first) / noise
        # NaN means that the values overflow, so nothing is known.
        if units != units:  # noqa: PLR0124
            return _Move()
        return _Move(first, last, units, (median(blocks[0].values), median(blocks[-1].values)))


class _Values:
    """The finite values of a metric in one block, and their median."""

    __slots__ = ("median", "values")

    def __init__(self, values: Sequence[float]) -> None:
        self.values = values
        self.median = _median(values) if values else 0.0

    def spread(self) -> float:
        """Return the median distance from the median."""
        return _median([abs(value - self.median) for value in self.values])


def _has_direction(medians: Sequence[float]) -> bool:
    """Return whether the first and the last of some medians are the extremes."""
    first, *between, last = medians
    low, high = (first, last) if first < last else (last, first)
    return not between or (low < min(between) and max(between) < high)


def _column(rows: Iterable[_Row], place: int) -> list[float]:
    """Return the finite values of one metric."""
    found = [row[place] for row in rows]
    return [value for value in found if value is not None and value - value == 0.0]


def _median(values: Sequence[float]) -> float:
    """Return the upper median: one of the values, so that nothing overflows."""
    return sorted(values)[len(values) // 2]
