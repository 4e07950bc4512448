"""Combined: what one message says about several events of an incident."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from klarm.channels.change import Change, change_of
from klarm.delivery.log import message_id_of
from klarm.incidents import is_alarm
from klarm.types import RINGING, SEVERITIES, Event, EventKind
from klarm.wording import state, what_happened, why


def merge_events(events: Sequence[Event]) -> Event:
    """Return one event that combines several events of an incident.

    Kind, step and reason are those of one of the events, so that they agree. Everything else is as
    the incident stands now.
    """
    if len(events) == 1:
        return events[0]
    last, kind = events[-1], _merged_kind(events)
    cause = _last(events, kind)
    # Only an alarm has a diagnosis of its own; some of the later events repeat it.
    diagnosis = next((e for e in reversed(events) if is_alarm(e) or e.pattern), last)
    seen = next((event for event in reversed(events) if event.also), last)
    return msgspec.structs.replace(
        last,
        event=kind,
        step=cause.step,
        message=_message(events, kind),
        severity=max((event.severity for event in events), key=SEVERITIES.index),
        reason=cause.reason,
        detector=cause.detector,
        rows=cause.rows,
        notified=cause.notified,
        notified_step=cause.notified_step,
        # A run goes on before a message is sent, so people read until when this was seen.
        also=seen.also,
        also_step=seen.step,
        pattern=diagnosis.pattern,
        cause=diagnosis.cause,
        remedy=diagnosis.remedy,
        action=diagnosis.action,
        checkpoint=last.checkpoint or diagnosis.checkpoint,
    )


def became_of(events: Sequence[Event]) -> str:
    """Return what became of an incident, for the title of one message about several events.

    It is empty if the kind of the combined event says it all.
    """
    merged, last = merge_events(events), events[-1]
    if last.event == "reopened" and merged.event != "reopened":
        # It is open, as the kind says; in between, it was not, which only the history tells.
        last = next(event for event in reversed(events) if is_alarm(event))
    if last.event == merged.event:
        return ""
    if last.event == "escalated":
        return f"{state(merged)} and {state(last)}"
    return state(last) if last.event == "ended" else f"{merged.event}, now {state(last)}"


def history_of(events: Sequence[Event]) -> str:
    """Return what happened, if one message combines several events; else an empty string."""
    if len(events) == 1:
        return ""
    return " ".join(f"{what_happened(e).capitalize()} at step {e.step}: {why(e)}" for e in events)


def changes_of(
    events: Sequence[Event], times: Mapping[int, float], otherwise: float
) -> list[Change]:
    """Return each event for programs, with the time of its step, if it is known."""
    return [
        change_of(event, times.get(event.step, otherwise), message_id_of([event]))
        for event in events
    ]


def _merged_kind(events: Sequence[Event]) -> EventKind:
    """Return the kind of a combined event: the end, or else the first kind that notifies people.

    A resolution after which the incident reopened is neither.
    """
    kinds = [event.event for event in events]
    if kinds[-1] == "resolved":
        return "resolved"
    return next((kind for kind in kinds if kind in RINGING and kind != "resolved"), kinds[-1])


def _message(events: Sequence[Event], kind: EventKind) -> str:
    """Return the numbers of the last alarm, with its step if the message is about later ones."""
    last = events[-1]
    alarm = next((event for event in reversed(events) if is_alarm(event)), last)
    if kind not in ("opened", "escalated") or alarm.step == last.step:
        return last.message
    return f"Step {alarm.step}: {alarm.message}"


def _last(events: Sequence[Event], kind: EventKind) -> Event:
    return next(event for event in reversed(events) if event.event == kind)
