"""A run with a journal and one channel, on a clock that stands still unless it is moved."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from loopback import LoopbackChannel, LoopbackRoute, Server

from example_events import example_event
from klarm.delivery import log as deliveries
from klarm.delivery import routes
from klarm.delivery.outbox import Outbox
from klarm.delivery.outcomes import Again
from klarm.delivery.worker import Worker
from klarm.delivery.writer import MessageWriter
from klarm.journal import append_command, new_key
from klarm.journal.file import FileJournal
from klarm.journal.records import Started
from klarm.types import Command, CommandKind, Event, EventKind, Severity

FOLDER = Path("klarm_runs/a")
BEGAN = 1000.0


def event_of(
    kind: EventKind,
    incident: int,
    step: int,
    severity: Severity,
    *,
    signal: str = "kl",
    id: str = "",  # noqa: A002
    seq: int = 1,
) -> Event:
    return example_event(
        kind,
        incident=incident,
        signal=signal,
        severity=severity,
        step=step,
        started=step,
        peak=float("nan"),
        reason=f"it {kind}",
        id=id or id_of(incident),
        seq=seq,
    )


def id_of(incident: int) -> str:
    """Return the id of the incident with a number."""
    return f"k{incident:07}"


class Run:
    """A run with a journal and a worker, on a clock that stands still unless it is moved."""

    def __init__(
        self, server: Server, *, folder: Path | None = FOLDER, began: float = BEGAN
    ) -> None:
        self.now = 5000.0
        self.said: list[str] = []
        self.seqs: Counter[str] = Counter()  # by the id of the incident
        self.folder = folder
        self.server = server
        self.journal = None
        if folder is not None:
            self.journal = FileJournal(folder, print)
            self.journal.record(Started("a", began, "0", "host", {}))
        self.worker = self.new_worker()

    def new_worker(self, *, behind: bool = False, again: Again = "none", **route: object) -> Worker:
        """Return a worker as another process would have it."""
        channel = LoopbackChannel(name="hook", url=self.server.url)
        return Worker(
            LoopbackRoute(channel, **route),  # type: ignore[arg-type]
            Outbox(self.folder, again=again, clock=lambda: self.now, say=self.said.append),
            MessageWriter(clock=lambda: self.now),
            routes.Run("a", self.folder),
            self.said.append,
            behind=behind,
            clock=lambda: self.now,
            monotonic=lambda: self.now,
            jitter=lambda: 0.0,
        )

    @property
    def outbox(self) -> Outbox:
        return self.worker._outbox

    def tell(
        self,
        kind: EventKind,
        incident: int = 1,
        step: int = 10,
        severity: Severity = "warning",
        signal: str = "kl",
        *,
        id: str = "",  # noqa: A002
    ) -> Event:
        """Record an event and hand it to the worker, as a monitor does."""
        id = id or id_of(incident)  # noqa: A001
        self.seqs[id] += 1
        event = event_of(kind, incident, step, severity, signal=signal, id=id, seq=self.seqs[id])
        if self.journal is not None:
            self.journal.step(step, self.now, {"kl": 1.0})
            self.journal.record(event)
        self.worker.put(event)
        return event

    def settle(self, worker: Worker | None = None) -> float | None:
        """Take turns until there is nothing to do now; return how long to wait."""
        worker = worker or self.worker
        while True:
            pause = worker.turn()
            if pause is None or pause > 0:
                return pause


def outcomes() -> list[tuple[int, str, str]]:
    return [
        (entry.incident, entry.event, entry.outcome)
        for _, entry in deliveries.read(FOLDER)
        if isinstance(entry, deliveries.Delivered)
    ]


def command(kind: CommandKind, *, by: str = "me", at: float = 5000.0, **how: object) -> None:
    """Append a command, as `klarm ack` and `klarm silence` do."""
    append_command(FOLDER, Command(command=kind, key=new_key(), time=at, by=by, **how))  # type: ignore[arg-type]


def silence(*, signal: str = "kl", **how: object) -> None:
    command("silence", signal=signal, **how)


def ack(incident: int, by: str = "me") -> None:
    command("ack", by=by, incident=id_of(incident))
