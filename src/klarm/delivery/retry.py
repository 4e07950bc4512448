"""Retry: when a channel may be tried next, after failures and after rejections."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

_FIRST_PAUSE_SECONDS = 1.0
_MAX_PAUSE_SECONDS = 300.0
_MAX_WISH_SECONDS = 3_600.0  # of a service that asks for patience
# In a row. After them the channel is at fault, not the messages.
MAX_REJECTIONS = 3
# How often a channel is tried that rejects everything: it may be repaired while a run goes on.
UNTIL_REPAIRED_SECONDS = 900.0


class Retry:
    """Counts what went wrong in a row on one channel, and says how long to wait."""

    def __init__(
        self,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.failures = 0  # in a row
        self.rejections = 0  # in a row
        self._due = 0.0
        self._monotonic = monotonic
        self._jitter = jitter

    @property
    def seconds_to_wait(self) -> float:
        """How long nothing may be sent."""
        return max(0.0, self._due - self._monotonic())

    @property
    def is_failing(self) -> bool:
        """Whether the last attempt reached nobody."""
        return self.failures > 0

    @property
    def is_rejecting(self) -> bool:
        """Whether so much was rejected that the channel itself must be at fault."""
        return self.rejections >= MAX_REJECTIONS

    def failed(self, wish: float | None = None) -> None:
        """Wait longer every time, or as long as the service asks for."""
        pause = min(_FIRST_PAUSE_SECONDS * 2.0 ** min(self.failures, 30), _MAX_PAUSE_SECONDS)
        pause *= 0.5 + 0.5 * self._jitter()  # runs that failed together must not return together
        if wish is not None:
            pause = max(pause, min(wish, _MAX_WISH_SECONDS))
        self.failures += 1
        self._due = self._monotonic() + pause

    def rejected(self, *, counts: bool = True) -> None:
        """Go on with the next message; after the third rejection, wait for a repair.

        One that repeats an earlier process's rejection does not count: new messages may be fine.
        """
        self.rejections += counts
        if self.is_rejecting:
            self._due = self._monotonic() + UNTIL_REPAIRED_SECONDS

    def succeeded(self) -> None:
        """Start counting anew."""
        self.failures = self.rejections = 0
