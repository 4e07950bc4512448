"""The outlook: what klarm says of a channel that takes no messages, and what to do then."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import NamedTuple

from klarm.delivery.retry import UNTIL_REPAIRED_SECONDS


class Outlook(NamedTuple):
    """When a channel is tried again, in words."""

    failing: str = "retrying"
    rejected_once: str = "retrying at most once an hour while its incident is open"
    rejecting: str = f"retrying every {UNTIL_REPAIRED_SECONDS / 60:g} minutes"
    # What to type later to send what it rejected. Nothing helps where a run is not recorded.
    command: str = ""

    def failed(self, channel: str, reason: str) -> str:
        """Say that a message did not get through."""
        return f"{channel}: delivery failed ({reason}); {self.failing}."

    def rejected(self, channel: str, reason: str) -> str:
        """Say that a service did not take a message, though it could be reached."""
        by_hand = ""
        if self.command:
            by_hand = f" After the run, `{self.command}` sends everything it rejected."
        return f"{channel}: message rejected ({reason}); {self.rejected_once}.{by_hand}"

    def rejected_in_a_row(self, channel: str, count: int) -> str:
        """Say that a channel takes nothing at all."""
        return (
            f"{channel}: {count} messages rejected in a row; {self.rejecting}. Fix the channel and "
            "check it with `klarm test-alert`."
        )

    def works_again(self, channel: str) -> str:
        """Say that a message got through after others did not."""
        return f"{channel}: delivery works again."


LIVE = Outlook()


def command_to_deliver(directory: Path, *, again: bool = False) -> str:
    """Return what to type to send what is pending in a run, or several; `again`: rejected, too.

    >>> command_to_deliver(Path("klarm_runs/a"), again=True)
    'klarm deliver klarm_runs/a --again'
    """
    return f"klarm deliver {shlex.quote(str(directory))}{' --again' * again}"
