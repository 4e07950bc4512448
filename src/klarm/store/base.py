"""What every store offers. A run has several logs, which only grow: bytes, addressed by offset."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal, NamedTuple, Protocol

from klarm.journal import Claim

# Training and klarm write the first log; people, and those who send, write the others.
LOGS = ("journal", "commands", "deliveries", "false_alarms")
Role = Literal["record", "deliver"]


class OffsetError(Exception):
    """A log does not end where an upload is to go on: `end` is where it does."""

    def __init__(self, end: int) -> None:
        super().__init__(f"the log ends at byte {end}")
        self.end = end


class LogState(NamedTuple):
    """By what a change of a log is noticed."""

    inode: int
    size: int
    modified: int


class RunAt(NamedTuple):
    """A run, and the states of those of its logs that exist."""

    run: str
    logs: Mapping[str, LogState]


class Listing(NamedTuple):
    """What has changed since an earlier listing; at first, everything."""

    changed: Sequence[RunAt]
    gone: Collection[str]
    cursor: Mapping[str, RunAt]  # what to give to the next call


class Store(Protocol):
    """Where runs lie. Training writes its own journal directly, and never comes here."""

    def runs(
        self, since: Mapping[str, RunAt] | None = None, only: Collection[str] | None = None
    ) -> Listing:
        """Return which runs have changed since a listing, or how some runs are. May raise OSError.

        What cannot be looked at is neither changed nor gone.
        """

    def read(self, run: str, log: str, offset: int, size: int) -> bytes:
        """Return up to `size` bytes of a log from an offset on, or raise OSError."""

    def append(self, run: str, log: str, data: bytes, at: int | None = None) -> int:
        """Append to a log, and return where it ends now; or raise OSError.

        With `at`, raise OffsetError unless the log ends there: then an upload can be repeated.
        """

    def summary(self, run: str, new: bytes | None = None) -> bytes:
        """Return the summary that was last kept for a run, or nothing; or keep a new one."""

    def claim(self, run: str, role: Role) -> Claim | None:
        """Take the right to record or to deliver a run; None if another process has it."""

    def is_free(self, run: str, role: Role) -> bool:
        """Return whether surely no process has this right."""
