"""Retry: the backoff of a channel after failures and after rejections."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

_FIRST_PAUSE_SECONDS = 1.0
_MAX_PAUSE_SECONDS = 300.0
_MAX_RETRY_AFTER_SECONDS = 3_600.0  # limits what a service may ask for
# After this many rejections in a row, the channel is at fault, not the messages.
MAX_REJECTIONS = 3
# How often a channel that rejects everything is retried: it may be repaired during the run.
UNTIL_REPAIRED_SECONDS = 900.0
# Not the generator of the module: training may have seeded it, and must get the same numbers.
own_random = random.Random().random


class Retry:
    """Counts consecutive failures and rejections of one channel, and decides how long to wait."""

    def __init__(
        self,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = own_random,
    ) -> None:
        self.failures = 0  # in a row
        self.rejections = 0  # in a row
        self._due = 0.0
        self._monotonic = monotonic
        self._jitter = jitter

    @property
    def seconds_to_wait(self) -> float:
        """The seconds until the next attempt is allowed."""
        return max(0.0, self._due - self._monotonic())

    @property
    def is_failing(self) -> bool:
        """Whether the last attempt failed."""
        return self.failures > 0

    @property
    def is_rejecting(self) -> bool:
        """Whether enough messages in a row were rejected to blame the channel."""
        return self.rejections >= MAX_REJECTIONS

    def failed(self, retry_after: float | None = None) -> None:
        """Double the pause, or wait as long as the service asks for."""
        pause = min(_FIRST_PAUSE_SECONDS * 2.0 ** min(self.failures, 30), _MAX_PAUSE_SECONDS)
        pause *= 0.5 + 0.5 * self._jitter()  # so that runs that failed together retry apart
        if retry_after is not None:
            pause = max(pause, min(retry_after, _MAX_RETRY_AFTER_SECONDS))
        self.failures += 1
        self._due = self._monotonic() + pause

    def rejected(self, *, counts: bool = True) -> None:
        """Continue with the next message; after the third rejection, wait for a repair.

        With `counts=False`, the message was a retry of a rejected one. It does not count, because
        new messages may be accepted.
        """
        self.rejections += counts
        if self.is_rejecting:
            self._due = self._monotonic() + UNTIL_REPAIRED_SECONDS

    def succeeded(self) -> None:
        """Reset the counts."""
        self.failures = self.rejections = 0
