"""The checkpoints a trainer has saved: which of them to go back to."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path

from klarm.journal import Limit

Saved = tuple[int, str]  # the step and the path
Span = tuple[int, int | None]  # from a step to another, or without an end
# What is kept in memory; the journal has them all.
_MAX_KEPT = 100


class Checkpoints:
    """Remembers what was saved, as far as it is of the run that still counts."""

    def __init__(self) -> None:
        self._saved: deque[Saved] = deque(maxlen=_MAX_KEPT)

    @property
    def saved(self) -> list[Saved]:
        """Those that count, in order."""
        return list(self._saved)

    def recall(self, saved: Iterable[Saved]) -> None:
        """Know those that an earlier process noted."""
        self._saved = deque(saved, maxlen=_MAX_KEPT)

    def add(self, step: int, path: str) -> None:
        """Note one, and forget those that are deleted by now: trainers keep the last few.

        This looks at the disk, which the trainer has just waited for itself.
        """
        kept = [saved for saved in self._saved if is_there(saved[1])]
        self._saved = deque([*kept, (step, path)], maxlen=_MAX_KEPT)

    def go_back_to(self, step: int) -> None:
        """Forget those that no longer count when training goes on at a step."""
        limit = Limit(step)
        kept = [saved for saved in self._saved if limit.keeps_checkpoint(saved[0])]
        self._saved = deque(kept, maxlen=_MAX_KEPT)

    def last_before(
        self, step: int, unsafe: Iterable[Span], is_good: Callable[[str], bool]
    ) -> Saved | None:
        """Return the latest from before a step that is in no span in which the run was broken."""
        spans = list(unsafe)
        for at, path in reversed(self._saved):
            if (
                at < step
                and not any(first <= at and (end is None or at < end) for first, end in spans)
                and is_good(path)
            ):
                return at, path
        return None


def is_there(path: str) -> bool:
    """Tell for a local path; one in a bucket or on another machine is taken at its word."""
    try:
        return Path(path).exists() or not Path(path).parent.is_dir()
    except (OSError, ValueError):
        return True
