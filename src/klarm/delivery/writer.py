"""The writer: makes the message of events, with details from the journal."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path

from msgspec.structs import replace

from klarm.channels.message import MAX_POINTS, Context, Message, message_of
from klarm.delivery.combined import became_of, changes_of, history_of, merge_events
from klarm.delivery.routes import Run
from klarm.incidents import metric_of
from klarm.journal import FILE_NAME, head_of, opening_of, place_of, steps_back, times_of
from klarm.metrics import to_number
from klarm.types import Event

# How many steps to search for the values of a curve: a metric may be missing from many steps.
_MAX_STEPS_READ = 5_000


class MessageWriter:
    """Writes messages. It reads the journal, so the training thread must not use it.

    If a run is not recorded, its messages have fewer details.
    """

    def __init__(
        self,
        *,
        gpus: int = 0,
        gpu_hour_price: float = 0.0,
        url: str = "",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._gpus = gpus
        self._gpu_hour_price = gpu_hour_price
        self._url = url
        self._clock = clock

    def __call__(
        self, events: Sequence[Event], run: Run, /, *, acknowledged_by: str = ""
    ) -> Message:
        """Return one message about events of an incident, in order."""
        event, now = merge_events(events), self._clock()
        known = Context(
            run=run.name,
            now=now,
            sent=now,
            gpus=self._gpus,
            gpu_hour_price=self._gpu_hour_price,
            url=self._url,
            acknowledged_by=acknowledged_by,
            changes=changes_of(events, {}, now),
            latest=events[-1],
            history=history_of(events),
            became=became_of(events),
        )
        if run.folder is None:
            return message_of(event, known)
        return message_of(event, _with_journal(known, run.folder / FILE_NAME, event, events))


def _with_journal(known: Context, journal: Path, event: Event, events: Sequence[Event]) -> Context:
    head, last = head_of(journal), events[-1].step
    now = place_of(journal, last)
    end = now.end if now else None
    times = times_of(journal, {event.step, event.started, *(e.step for e in events)}, end)
    opening = None if event.event == "opened" else opening_of(journal, event.incident, event.id)
    return replace(
        known,
        now=now.time if now else known.now,
        happened=times.get(event.step, 0.0),
        run_started=head.started if head is not None else 0.0,
        incident_started=times.get(event.started, 0.0),
        values=_values(journal, metric_of(event), last, end),
        opening=opening,
        changes=changes_of(events, times, now.time if now else known.now),
    )


def _values(journal: Path, metric: str, last: int, end: int | None) -> list[tuple[int, float]]:
    values: list[tuple[int, float]] = []
    steps = islice(steps_back(journal, end), _MAX_STEPS_READ if metric else 0)
    for step in steps:
        value = to_number(step.metrics.get(metric))
        if value is not None and step.step <= last:
            values.append((step.step, value))
            if len(values) == MAX_POINTS:
                break
    return values[::-1]
