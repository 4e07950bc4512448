"""The message: what people are told of one event, the same on every channel."""

from __future__ import annotations

import msgspec

from klarm.types import EventKind, Severity


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """What one event has to say, ready to be laid out by a channel.

    Everything is plain text and safe to show; what is not known is empty. A channel decides how
    it looks, never what it says.
    """

    run: str
    incident: int
    event: EventKind
    signal: str
    severity: Severity
    step: int
    title: str  # one line: what, how bad, which run
    body: str  # a few lines: since when, numbers, what else moved, what to do
    # The parts of the body, for services that show fields: name -> value, in order.
    fields: dict[str, str] = {}
    sparkline: str = ""  # the metric's last values, as characters
    curve: list[tuple[int, float]] = []  # the same as step and value, for those that can draw
    metric: str = ""  # what the curve shows
    link: str = ""  # to the page of the run
    test: bool = False  # sent by `klarm test-alert`

    @property
    def key(self) -> str:
        """What is the same for all events of one incident, and for no other."""
        return f"{self.run}/{self.signal}/{self.incident}"
