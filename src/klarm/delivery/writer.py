"""The writer: makes the message of an event from what the journal holds around it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from klarm.channels.message import Context, Message, message_of, metric_of
from klarm.delivery.routes import Run
from klarm.journal import FILE_NAME, Started, Step, read_journal
from klarm.journal_scan import last_steps, recorded_events
from klarm.metrics import to_number
from klarm.types import Event


class MessageWriter:
    """Writes messages. Reads the journal, so it is for the threads that deliver, not for training.

    A run that cannot be recorded is told of all the same, with less to say.
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

    def __call__(self, event: Event, run: Run, /, *, acknowledged_by: str = "") -> Message:
        """Return what there is to say of an event."""
        known = Context(
            run=run.name,
            now=self._clock(),
            gpus=self._gpus,
            gpu_hour_price=self._gpu_hour_price,
            url=self._url,
            acknowledged_by=acknowledged_by,
        )
        if run.folder is None:
            return message_of(event, known)
        return message_of(event, _with_journal(known, run.folder / FILE_NAME, event))


def _with_journal(known: Context, journal: Path, event: Event) -> Context:
    first = next(read_journal(journal), None)
    steps = [step for step in _not_rolled_back(journal) if step.step <= event.step]
    times = {step.step: step.time for step in steps}
    metric = metric_of(event)
    values = [(s.step, v) for s in steps if (v := to_number(s.metrics.get(metric))) is not None]
    own = [e for _, _, e in recorded_events(journal) if e.incident == event.incident]
    return replace(
        known,
        now=times.get(event.step, known.now),
        run_started=first.started if isinstance(first, Started) else 0.0,
        incident_started=times.get(event.started, 0.0),
        values=values,
        opening=next((e for e in own if e.event == "opened"), None),
    )


def _not_rolled_back(journal: Path) -> list[Step]:
    steps: list[Step] = []
    for step in last_steps(journal):
        if steps and steps[-1].step > step.step:  # equal ones are several dicts of one step
            steps = [earlier for earlier in steps if earlier.step < step.step]
        steps.append(step)
    return steps
