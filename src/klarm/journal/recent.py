"""The recent steps of a run that is not recorded on disk: enough for a short rollback."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence, Set
from typing import IO

from klarm.journal.file import Batches
from klarm.journal.incident import IncidentRecord, add_event
from klarm.journal.records import Record, Resume
from klarm.metrics import METRICS
from klarm.types import Event

_MAX_BYTES = 16 * 2**20  # beyond this, no rollback is possible until the next snapshot


class RecentJournal(Batches):
    """The end of a journal that is kept only in memory: everything since the oldest snapshot."""

    path = None

    def __init__(self, metrics: Set[str] = METRICS.keys()) -> None:
        """Prepare to record. `metrics` are those that detectors may read."""
        self._metrics = metrics
        self._say = lambda _: None
        self._kept: list[bytes] = []
        self.begin = 0  # the offset of the first byte that is kept
        self.end = 0
        self.incidents: dict[str, IncidentRecord] = {}
        self.first_step: int | None = None
        self.last_step: int | None = None

        def append(lines: bytes) -> None:
            self._kept.append(lines)
            self.end += len(lines)
            if self.end - self.begin > _MAX_BYTES:
                self.forget_before(self.end)

        self._append = append

    def step(
        self, step: int, time: float, values: Mapping[str, float], also: Sequence[Record] = ()
    ) -> None:
        """Keep those values of a step that detectors may read."""
        super().step(step, time, {n: v for n, v in values.items() if n in self._metrics})
        if self.first_step is None:
            self.first_step = step
        self.last_step = step
        self._add_events(also)

    def record(self, record: Record, also: Sequence[Record] = ()) -> None:
        """Keep any other record."""
        super().record(record)
        if isinstance(record, Resume):
            self.last_step = record.step - 1
        self._add_events(also)

    def since(self, offset: int) -> IO[bytes]:
        """Return what was recorded from an offset on."""
        return io.BytesIO(b"".join(self._kept)[offset - self.begin :])

    def forget_before(self, offset: int) -> None:
        """Discard everything before an offset."""
        if offset <= self.begin:
            return
        self._kept = [b"".join(self._kept)[offset - self.begin :]]
        self.begin = offset

    def stored(self, *, complete: bool = True) -> None:
        """Return None: this is not the whole run."""

    def close(self, timeout: float) -> None:
        """Do nothing: the journal is not read afterwards."""

    def abandon(self) -> None:
        """Do nothing: no file is shared with a parent process."""

    def _add_events(self, also: Sequence[Record]) -> None:
        for record in also:
            if isinstance(record, Event):
                add_event(self.incidents, record)
