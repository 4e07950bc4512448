"""The state of a run: what its journal says so far, without its rows, continued from an offset."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from math import inf
from typing import Any

import msgspec
import numpy as np

from klarm.journal import (
    AnyStep,
    Checkpoint,
    Finish,
    Fold,
    Record,
    Resume,
    Started,
)
from klarm.metrics import to_number
from klarm.runs.curve import Curve
from klarm.runs.known import (
    Alerts,
    Damages,
    Given,
    GoneBack,
    Kept,
    Known,
    Passed,
    Place,
    Process,
    Told,
)
from klarm.store import LogFile, Store
from klarm.types import Alert, Blip, Command, Event

SHOWN_METRICS = ("kl", "reward", "entropy")
SLICE_BYTES = 2**20  # how much is read before others get their turn
_BEGINNING, _END = 1024, 128  # bytes by which a journal is recognized
_MAX_TIME = 1e300  # a larger number is not a valid time

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Known).decode


class News(msgspec.Struct):
    """What newly read lines have changed."""

    what: set[str] = msgspec.field(default_factory=set)
    first_step: float = inf  # the lowest step that was logged or rolled back to


class RunState:
    """Everything that a journal says except its rows. One thread at a time may use it."""

    def __init__(self, store: Store, run: str) -> None:
        """Prepare to read; `restore` continues from what was known before."""
        self.store, self.run = store, run
        self.inode = 0  # of the journal, where the caller distinguishes journals by it
        self._file = LogFile(store, run)
        name = run.rpartition("/")[2]
        self.damages = Damages()
        self.fold = Fold(
            self._file,  # type: ignore[arg-type]
            self._on_damage,
            self._on_record,
            self._on_steps,
            run=name,
        )
        self.latest: dict[str, Any] = {}  # the last value of each metric
        self.curves = {metric: Curve() for metric in SHOWN_METRICS}
        self.last_time = self.last_seen = 0.0  # of the last step; of the last sign of training
        self.events: list[Told] = []
        self.commands: list[Given] = []
        self.blips: list[Passed] = []
        self.checkpoints: list[Kept] = []
        self.rollbacks: list[GoneBack] = []  # all resumptions, even if they undid nothing
        self.processes: list[Process] = []
        self.alerts = Alerts()
        # Offsets where lines begin, and the highest step before each.
        self.places: list[tuple[int, int]] = []
        self._highest: int | None = None
        self._news = News()

    @property
    def read_to(self) -> int:
        """The offset up to which the journal was read."""
        return self.fold.read_to

    def read(self, at_most: int = SLICE_BYTES, until: int | None = None) -> News:
        """Read the next lines, about as many bytes as given; return what has changed.

        `until` is an offset up to which the journal was read before.
        """
        self._news = News()
        self.fold.update(at_most, until)
        last = self.places[-1][1] if self.places else 0
        if self._highest is not None and self.read_to - last >= SLICE_BYTES:
            self.places.append((self._highest, self.read_to))
        if self._news.first_step < inf:
            self._news.what.add("steps")
        return self._news

    def read_all(self, until: int | None = None) -> Iterator[int]:
        """Read to the end; yield the offset after each slice, for those who show progress."""
        before = -1
        while self.read_to != before:
            before = self.read_to
            self.read(until=until)
            yield self.read_to

    def copy(self) -> RunState:
        """Return a state that does not change with this one, and is not to be read on."""
        other = RunState(self.store, self.run)
        other.inode = self.inode
        other._take(_decode(_encode(self._known())))
        return other

    def saved(self, size: int) -> bytes:
        """Return the state as bytes, for a journal of this size."""
        known = self._known()
        known.size, known.fingerprint = size, self._fingerprint()
        return _encode(known)

    def restore(self, data: bytes, size: int) -> bool:
        """Continue from saved bytes; return False if they are not of this journal."""
        try:
            known = _decode(data)
        except (msgspec.DecodeError, ValueError, TypeError):  # of another version, or damaged
            return False
        if known.size > size or known.fold.read_to > size:
            return False
        if known.fingerprint != self._fingerprint(known.fold.read_to):
            return False
        self._take(known)
        return True

    def _known(self) -> Known:
        return Known(
            fold=self.fold.saved(),
            latest=self.latest,
            curves={name: curve.saved() for name, curve in self.curves.items()},
            last_time=self.last_time,
            last_seen=self.last_seen,
            highest=self._highest,
            events=self.events,
            commands=self.commands,
            blips=self.blips,
            checkpoints=self.checkpoints,
            rollbacks=self.rollbacks,
            processes=self.processes,
            detectors=self.alerts.detectors,
            alerts=self.alerts.saved(),
            places=self.places,
            damages=self.damages,
        )

    def _take(self, known: Known) -> None:
        self.fold.restore(known.fold)
        self.latest = known.latest
        self.curves = {name: Curve(saved) for name, saved in known.curves.items()}
        self.alerts = Alerts(known.alerts, known.detectors)
        self.last_time, self.last_seen = known.last_time, known.last_seen
        self.events, self.commands, self.blips = known.events, known.commands, known.blips
        self.checkpoints, self.rollbacks = known.checkpoints, known.rollbacks
        self.processes, self.places = known.processes, known.places
        self.damages, self._highest = known.damages, known.highest

    def _fingerprint(self, read_to: int | None = None) -> bytes:
        """Return checksums that reveal whether the journal was replaced by another."""
        end, read = self.read_to if read_to is None else read_to, self.store.read
        beginning = read(self.run, "journal", 0, min(_BEGINNING, end))
        ending = read(self.run, "journal", max(0, end - _END), min(_END, end))
        return b"%08x%08x" % (zlib.crc32(beginning), zlib.crc32(ending))

    def _on_damage(self, number: int, why: Any) -> None:
        self.damages.add(number, why)
        self._news.what.add("notices")

    def _on_steps(self, steps: Sequence[AnyStep]) -> None:
        latest, numbers = self.latest, [step.step for step in steps]
        for step in steps:
            latest.update(step.metrics)
        for name, curve in self.curves.items():
            logged = [
                (number, value)
                for number, step in zip(numbers, steps, strict=True)
                if name in step.metrics
                and (value := to_number(step.metrics[name])) is not None
                and abs(number) < 2**63
            ]
            if logged:
                at, values = zip(*logged, strict=True)
                curve.add(np.array(at, np.int64), np.array(values, np.float64))
        time = steps[-1].time
        if abs(time) < _MAX_TIME:
            self.last_time = time
            self.last_seen = max(self.last_seen, time)
        highest, lowest = max(numbers), min(numbers)
        self._highest = highest if self._highest is None else max(self._highest, highest)
        self._news.first_step = min(self._news.first_step, lowest)

    def _on_record(self, record: Record, begin: int, end: int) -> None:
        place = Place(begin, end, getattr(record, "step", None) or 0, self.last_time)
        what = self._news.what
        if isinstance(record, Alert):
            what.add("alerts")
            self.alerts.add(record, begin, self.last_time)
        elif isinstance(record, Event):
            what.add("incidents")
            self.events.append(Told(place, record))
        elif isinstance(record, Blip):
            self.blips.append(Passed(place, record))
        elif isinstance(record, Checkpoint):
            what.add("checkpoints")
            place = msgspec.structs.replace(place, time=record.time)
            self.checkpoints.append(Kept(place, record))
            self.last_seen = max(self.last_seen, record.time)
        elif isinstance(record, Command):
            what.add("commands")
            self.commands.append(Given(place, record))
        elif isinstance(record, Resume):
            self._go_back(record, msgspec.structs.replace(place, time=record.time))
        elif isinstance(record, Started):
            what |= {"config", "activity"}
            at = self.fold.last_step or 0
            place = Place(begin, end, at, record.started)
            if not self.processes:  # `klarm close` may write others long after the run ended
                self.last_seen = max(self.last_seen, record.started)
            # Only the settings of the latest process are shown.
            self.processes = [
                Process(known.place, msgspec.structs.replace(known.started, config={}))
                for known in self.processes
            ]
            self.processes.append(Process(place, record))
        elif isinstance(record, Finish):
            what.add("activity")
            if record.steps:
                self.last_seen = max(self.last_seen, record.time)

    def _go_back(self, resume: Resume, place: Place) -> None:
        before = len([back for back in self.rollbacks if back.last is not None])
        undid = len(self.fold.rollbacks) > before
        last = self.fold.rollbacks[-1].last if undid else None
        self.rollbacks.append(GoneBack(place, last))
        for curve in self.curves.values():
            curve.go_back(resume.step)
        if undid:
            self._news.what.add("rollback")
            self._news.first_step = min(self._news.first_step, resume.step)
