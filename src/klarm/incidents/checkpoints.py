"""The checkpoints a trainer has saved: which of them to go back to."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path

from klarm.incidents.loadable import problem_with
from klarm.journal import Limit

Saved = tuple[int, str]  # the step and the path
Span = tuple[int, int | None]  # from a step to another, or without an end
# What is kept in memory; the journal has them all.
_MAX_KEPT = 100


class Checkpoints:
    """Remembers what was saved, as far as it belongs to the part of the run that still counts."""

    def __init__(self) -> None:
        self._saved: deque[Saved] = deque(maxlen=_MAX_KEPT)
        self._damaged: set[str] = set()  # paths that could not be loaded when last looked at

    @property
    def saved(self) -> list[Saved]:
        """The checkpoints that count, in order."""
        return list(self._saved)

    def recall(self, saved: Iterable[Saved]) -> None:
        """Take over the checkpoints that an earlier process noted."""
        self._saved = deque(saved, maxlen=_MAX_KEPT)

    def add(self, step: int, path: str, *, damaged: bool = False) -> None:
        """Note a checkpoint, and whether it cannot be loaded.

        Earlier ones that are deleted or written over by now are forgotten: trainers keep the last
        few, or the best. Damaged ones are looked at again, because some trainers go on writing in
        the background. This reads from the disk, which the trainer has just waited for itself.
        """
        kept = [saved for saved in self._saved if saved[1] != path and is_there(saved[1])]
        self._saved = deque([*kept, (step, path)], maxlen=_MAX_KEPT)
        self._damaged = {known for known in self._damaged if problem_with(known)}
        if damaged:
            self._damaged.add(path)

    def go_back_to(self, step: int) -> None:
        """Forget those that no longer count when training goes on at a step."""
        limit = Limit(step)
        kept = [saved for saved in self._saved if limit.keeps_checkpoint(saved[0])]
        self._saved = deque(kept, maxlen=_MAX_KEPT)

    def last_before(
        self, step: int, unsafe: Iterable[Span], is_good: Callable[[str], bool]
    ) -> Saved | None:
        """Return the latest from before a step, saved while the run was well, that can be loaded.

        `is_good` is asked about each candidate.
        """
        spans = list(unsafe)
        for at, path in reversed(self._saved):
            if (
                at < step
                and not any(first <= at and (end is None or at < end) for first, end in spans)
                and path not in self._damaged
                and is_good(path)
            ):
                return at, path
        return None


def is_there(path: str) -> bool:
    """Tell whether a local path exists. One in a bucket or on another machine is trusted."""
    try:
        return Path(path).exists() or not Path(path).parent.is_dir()
    except (OSError, ValueError):
        return True


def damage_of(path: str) -> str:
    """Return what is wrong with a checkpoint. One that is not there may yet be written."""
    return problem_with(path) if is_there(path) else ""


def can_be_loaded(path: str) -> bool:
    """Tell whether a checkpoint looks complete. One that is not on this machine is trusted."""
    return not problem_with(path)
