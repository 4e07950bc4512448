"""Length blow-up: completions grow, and the reward does not rise with them."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from klarm.detectors.base import LEVEL_BEFORE
from klarm.detectors.lazy_score import LazyScoreDetector
from klarm.settings import setting
from klarm.stats import MedianWithin, median
from klarm.text import number
from klarm.types import Alert, Severity

_CRITICAL_FACTOR = 1.5
# Lengths are in tokens, so a baseline below one makes no sense.
_MIN_LENGTH = 1.0
# The minimum gain of a climbing reward, in units of its noise.
_MIN_CLIMB = 0.5


@dataclass(kw_only=True, eq=False)
class LengthBlowupDetector(LazyScoreDetector):
    """Warns when completions have grown by `growth` and the reward has not climbed with them.

    Also if the share that is cut off at the length limit has risen by `truncated_rise` without a
    gain in reward. Critical at 1.5 times either. All levels are medians over `recent_steps`. Growth
    with a gain in reward becomes the new normal, from which further growth is measured.
    """

    name: ClassVar[str] = "length_blowup"
    signal: ClassVar[str] = "length"
    watches: ClassVar[tuple[str, ...]] = ("length", "reward", "truncated_fraction")
    min_values: ClassVar[int] = 10
    recommendations: ClassVar[Mapping[Severity, str]] = {
        "warning": (
            "Read some long completions: padding, repetition or a missing end token? Check "
            "how the reward depends on length, and consider a penalty for overlong completions."
        ),
        "critical": (
            "Stop and read some completions: they no longer end in time, and compute is spent on "
            "tokens that earn no reward. Make the reward neutral to length, or go back to a "
            "checkpoint from before the climb with a length penalty."
        ),
    }

    growth: float = setting(
        3.0,
        "warning at this many times the length of the first completions; critical at 1.5 times it",
        above=1,
    )
    truncated_rise: float = setting(
        0.3,
        "warning when the truncated share is up by this much, critical at 1.5 times it",
        above=0,
    )
    recent_steps: int = setting(20, "number of values in each median", at_least=5)

    def _start(self) -> None:
        size = self.recent_steps
        self._lengths = MedianWithin(size)
        self._rewards: deque[float] = deque(maxlen=size)
        self._truncated = MedianWithin(size)
        # The levels from which growth is measured; set at the end of the warm-up.
        self._length = 0.0
        self._reward = 0.0
        self._noise = 0.0
        self._cut = 0.0

    def _note(self, step: int, metrics: Mapping[str, float]) -> None:  # noqa: ARG002
        # Reward and truncation may come in another dict of the step than the length.
        if (found := metrics.get("reward")) is not None and found - found == 0.0:
            self._rewards.append(found)
        if (found := metrics.get("truncated_fraction")) is not None and found - found == 0.0:
            self._truncated.update(found)

    def _observe(self, step: int, value: float) -> Alert | None:
        self._lengths.update(value)
        self._score = None
        if self._seen < self._silent_values:
            if self._seen + 1 == self._silent_values:
                self._accept()
            return None
        if not (self._lengths.above or self._truncated.above):  # the usual case
            return None
        if not (self._lengths.may_be_above or self._truncated.may_be_above):
            return None
        length, cut = self._lengths.median, self._truncated.median
        longer = length / self._length
        score = self._compute_score()
        if score <= 1.0:
            return None
        if self._reward_climbed():
            self._accept()
            self.score = 1.0
            return None
        severity: Severity = "critical" if score > _CRITICAL_FACTOR else "warning"
        message = (
            f"Completions are {number(longer)} times as long as before (median {number(length, 4)} "
            f"tokens, {number(self._length, 4)} before) and {cut:.0%} are cut off ({self._cut:.0%} "
            f"before), but {self._reward_text()}."
        )
        return self._alert(severity, step, value, message, decisive=True)

    def _compute_score(self) -> float:
        if not self._length:
            return 0.0
        grown = self._lengths.median / self._length / self.growth
        return max(grown, (self._truncated.median - self._cut) / self.truncated_rise)

    def _accept(self) -> None:
        """Accept the current levels as normal."""
        self._length = max(self._lengths.median, _MIN_LENGTH)
        self._cut = self._truncated.median
        self._lengths.set_limit(self._length * self.growth)
        self._truncated.set_limit(self._cut + self.truncated_rise)
        if self._rewards:
            level = self._reward = median(self._rewards)
            # The median absolute deviation: one odd batch does not widen it.
            self._noise = median([abs(reward - level) for reward in self._rewards])

    def _reward_climbed(self) -> bool:
        if not self._rewards:
            return False
        return median(self._rewards) - self._reward > _MIN_CLIMB * self._noise

    def _reward_text(self) -> str:
        if not self._rewards:
            return "no reward is logged that could explain this"
        now = median(self._rewards)
        return f"the reward has not climbed ({number(now)}, {number(self._reward)} before)"

    def _details(self, value: float, score: float, severity: Severity) -> dict[str, float | str]:
        details: dict[str, float | str] = {
            **super()._details(value, score, severity),
            "score": score,
            "threshold": _CRITICAL_FACTOR if severity == "critical" else 1.0,
            "baseline_length": self._length,
            "baseline_truncated_fraction": self._cut,
        }
        if self._lengths.median > self.growth * self._length:
            details[LEVEL_BEFORE] = self._length
        if self._rewards:
            details["baseline_reward"] = self._reward
        return details
