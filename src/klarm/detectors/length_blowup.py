"""Length blow-up: completions grow, and the reward does not rise with them."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from klarm.detectors.base import CRITICAL_FACTOR, LEVEL_BEFORE, Detector
from klarm.settings import setting
from klarm.stats import median, scatter
from klarm.types import Alert, Severity

_GREW = (
    "Completions are {growth} times as long as before (median {median_length:4} tokens, "
    "{baseline_length:4} before) and {truncated:%} are cut off "
    "({baseline_truncated_fraction:%} before), but"
)
# Lengths are in tokens, so a baseline below one makes no sense.
_MIN_LENGTH = 1.0
# The minimum gain of a climbing reward, in units of its noise.
_MIN_CLIMB = 0.5


@dataclass(kw_only=True, eq=False)
class LengthBlowupDetector(Detector):
    """Warns when completions have grown by `growth` and the reward has not climbed with them.

    Also if the share that is cut off at the length limit has risen by `truncated_rise` without a
    gain in reward. Critical at 1.5 times either. All levels are medians over `recent_steps`. Growth
    with a gain in reward becomes the new normal, from which further growth is measured.
    """

    name: ClassVar[str] = "length_blowup"
    signal: ClassVar[str] = "length"
    watches: ClassVar[tuple[str, ...]] = ("length", "reward", "truncated_fraction")
    min_values: ClassVar[int] = 10
    messages: ClassVar[Mapping[str, str]] = {
        "no gain": f"{_GREW} the reward has not climbed ({{reward_now}}, {{baseline_reward}} "
        "before).",
        "no reward": f"{_GREW} no reward is logged that could explain this.",
    }
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
        self._lengths: deque[float] = deque(maxlen=size)
        self._rewards: deque[float] = deque(maxlen=size)
        self._truncated: deque[float] = deque(maxlen=size)
        # How many values have passed since the last one beyond its limit.
        self._inside = self._uncut = 0
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
            self._truncated.append(found)
            self._uncut = 0 if found > self._cut + self.truncated_rise else self._uncut + 1

    def _observe(self, step: int, value: float) -> Alert | None:
        self._lengths.append(value)
        if self._seen < self._silent_values:
            if self._seen + 1 == self._silent_values:
                self._accept()
            return None
        self._inside = 0 if value > self._length * self.growth else self._inside + 1
        if self._inside >= self.recent_steps and (
            self._uncut >= self.recent_steps or not self._truncated
        ):
            self.score = 0.0  # nearly always: no median can be beyond its limit
            return None
        length, cut = median(self._lengths), self._cut_off()
        grown = length / self._length
        self.score = max(grown / self.growth, (cut - self._cut) / self.truncated_rise)
        if self.score <= 1.0:
            return None
        if self._reward_climbed():
            self._accept()
            self.score = 1.0
            return None
        severity: Severity = "critical" if self.score > CRITICAL_FACTOR else "warning"
        facts: dict[str, float] = {
            "score": self.score,
            "threshold": CRITICAL_FACTOR if severity == "critical" else 1.0,
            "growth": grown,
            "median_length": length,
            "baseline_length": self._length,
            "truncated": cut,
            "baseline_truncated_fraction": self._cut,
        }
        if length > self.growth * self._length:
            facts[LEVEL_BEFORE] = self._length
        if self._rewards:
            facts |= {"reward_now": median(self._rewards), "baseline_reward": self._reward}
        case = "no gain" if self._rewards else "no reward"
        return self._alert(severity, step, value, facts, case=case, decisive=True)

    def _cut_off(self) -> float:
        return median(self._truncated) if self._truncated else 0.0

    def _accept(self) -> None:
        """Accept the current levels as normal."""
        self._inside = self._uncut = 0  # counted by other limits so far
        self._length = max(median(self._lengths), _MIN_LENGTH)
        self._cut = self._cut_off()
        if self._rewards:
            self._reward, self._noise = median(self._rewards), scatter(self._rewards)

    def _reward_climbed(self) -> bool:
        if not self._rewards:
            return False
        return median(self._rewards) - self._reward > _MIN_CLIMB * self._noise
