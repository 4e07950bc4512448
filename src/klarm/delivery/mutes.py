"""Mutes: what acknowledgements and silences keep from being sent, and what they never do."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Sequence
from typing import Literal

from klarm.delivery.log import Silenced
from klarm.types import Event

# To send it, to wait until a silence is over, or why it is never sent.
Verdict = Literal["send", "wait", "silenced", "acknowledged"]


def judge(
    events: Sequence[Event],
    *,
    told: bool,
    acknowledged: Collection[int],
    silences: Iterable[Silenced],
) -> Verdict:
    """Say what to do with the events of one incident that a channel has yet to be sent.

    - The end of what was told is told.
    - An acknowledgement holds back what is neither critical nor an escalation. Who acknowledged it
      knows of it, but not that it got worse; and others who read the channel must not miss what is
      critical.
    - A silence that is in force holds back what is not critical, and the critical only if it says
      so. What is still open when it ends is told then.
    """
    last = events[-1]
    over = last.event == "resolved"
    if told and over:
        return "send"
    critical = any(event.severity == "critical" for event in events)
    worse = any(event.event == "escalated" for event in events)
    if last.incident in acknowledged and not critical and not worse:
        return "acknowledged"
    for silence in silences:
        if silence.signal == last.signal and (silence.even_critical or not critical):
            return "silenced" if over else "wait"
    return "send"


def silence_in_words(silence: Silenced) -> str:
    """Say how long a silence lasts, and what it does not hold back."""
    until = f"step {silence.until_step}"
    if silence.until_time is not None:
        until = time.strftime("%Y-%m-%d %H:%M %Z", time.localtime(silence.until_time))
    but = "critical ones too" if silence.even_critical else "critical ones are told of all the same"
    return f"{silence.signal} is silent until {until}; {but}"
