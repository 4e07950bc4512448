"""Mutes: what acknowledgements and silences keep from being sent, and what they never do."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Literal

from klarm.delivery.deliveries import Silenced
from klarm.types import Event

# To send it, to wait until a silence is over, or why it is never sent.
Verdict = Literal["send", "wait", "silenced", "acknowledged"]


def judge(
    events: Sequence[Event],
    *,
    told: bool,
    acknowledged: Collection[int],
    silences: Iterable[Silenced],
    step: int | None,
    time: float,
) -> Verdict:
    """Say what to do with the events of one incident that a channel has yet to be sent.

    - The end of what was told is told.
    - Whoever acknowledged an incident need not be told that it opened, but that it got worse.
    - A silence holds back what is not critical, and the critical only if it says so. What is still
      open when it ends is told then.
    """
    last = events[-1]
    over = last.event == "resolved"
    if told and over:
        return "send"
    if last.incident in acknowledged and (over or last.event == "opened"):
        return "acknowledged"
    critical = any(event.severity == "critical" for event in events)
    for silence in silences:
        if (
            silence.signal == last.signal
            and (silence.even_critical or not critical)
            and silence.holds(step, time)
        ):
            return "silenced" if over else "wait"
    return "send"
