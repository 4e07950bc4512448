"""The writer: makes the message of an event, with details from the journal."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

from msgspec.structs import replace

from klarm.channels.message import MAX_POINTS, Context, Message, message_of
from klarm.delivery.routes import Run
from klarm.incidents import metric_of
from klarm.journal import FILE_NAME, head_of, opening_of, place_of, steps_back
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
        self,
        event: Event,
        run: Run,
        /,
        *,
        acknowledged_by: str = "",
        history: str = "",
        became: str = "",
        until: int | None = None,
    ) -> Message:
        """Return the message of an event, which may combine several, the last at step `until`."""
        known = Context(
            run=run.name,
            now=self._clock(),
            sent=self._clock(),
            gpus=self._gpus,
            gpu_hour_price=self._gpu_hour_price,
            url=self._url,
            acknowledged_by=acknowledged_by,
            history=history,
            became=became,
        )
        if run.folder is None:
            return message_of(event, known)
        last = event.step if until is None else until
        return message_of(event, _with_journal(known, run.folder / FILE_NAME, event, last))


def _with_journal(known: Context, journal: Path, event: Event, last: int) -> Context:
    head = head_of(journal)
    now = place_of(journal, last)
    end = now.end if now else None
    happened = now if last == event.step else place_of(journal, event.step, end)
    began = place_of(journal, event.started, end)
    return replace(
        known,
        now=now.time if now else known.now,
        happened=happened.time if happened else 0.0,
        run_started=head.started if head is not None else 0.0,
        incident_started=began.time if began else 0.0,
        values=_values(journal, metric_of(event), last, end),
        opening=None if event.event == "opened" else opening_of(journal, event.incident, event.id),
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
