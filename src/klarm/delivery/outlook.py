"""The outlook: what klarm reports about a channel that fails, and when it is retried."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import NamedTuple

from klarm.delivery.retry import UNTIL_REPAIRED_SECONDS


class Outlook(NamedTuple):
    """When a channel is retried, in words."""

    failing: str = "retrying"
    rejected_once: str = "retrying at most once an hour while its incident is open"
    rejecting: str = f"retrying every {UNTIL_REPAIRED_SECONDS / 60:g} minutes"
    # The command that sends rejected messages later. Empty if the run is not recorded.
    command: str = ""

    def failed(self, channel: str, reason: str) -> str:
        """Return the report that a message could not be delivered."""
        return f"{channel}: delivery failed ({reason}); {self.failing}."

    def rejected(self, channel: str, reason: str) -> str:
        """Return the report that a service was reached but rejected a message."""
        by_hand = ""
        if self.command:
            by_hand = f" After the run, `{self.command}` sends everything it rejected."
        return f"{channel}: message rejected ({reason}); {self.rejected_once}.{by_hand}"

    def rejected_in_a_row(self, channel: str, count: int) -> str:
        """Return the report that a channel rejects every message."""
        return (
            f"{channel}: {count} messages rejected in a row; {self.rejecting}. Fix the channel and "
            "check it with `klarm test-alert`."
        )

    def works_again(self, channel: str) -> str:
        """Return the report that a message was delivered after others had failed."""
        return f"{channel}: delivery works again."


LIVE = Outlook()


def command_to_deliver(directory: Path, *, again: bool = False) -> str:
    """Return the command that delivers pending messages; with `again`, rejected ones, too.

    >>> command_to_deliver(Path("klarm_runs/a"), again=True)
    'klarm deliver klarm_runs/a --again'
    """
    return f"klarm deliver {shlex.quote(str(directory))}{' --again' * again}"
