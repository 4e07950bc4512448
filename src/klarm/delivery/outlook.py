"""The outlook: what is said of a channel that does not take messages, and what to do then."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import NamedTuple

# How often a channel is tried that refuses everything: it may be mended while a run goes on.
UNTIL_MENDED_SECONDS = 900.0


class Outlook(NamedTuple):
    """When a channel is tried again, in words."""

    unreached: str = "it is tried again until it is"
    refusing: str = f"it is tried again every {UNTIL_MENDED_SECONDS / 60:g} minutes"
    # What to type later to have sent what it refused. Nothing helps where a run is not recorded.
    command: str = ""


LIVE = Outlook()


def command_to_deliver(directory: Path, *, again: bool = False) -> str:
    """Return what to type to have sent what a run, or several, owe; `again`: the refused too.

    >>> command_to_deliver(Path("klarm_runs/a"), again=True)
    'klarm deliver klarm_runs/a --again'
    """
    return f"klarm deliver {shlex.quote(str(directory))}{' --again' * again}"
