"""Whatever services, people and processes do: every event is delivered once, and in order."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from hypothesis import given, settings
from hypothesis import strategies as st
from one_channel import event_of

from klarm.channels.base import Channel, NotDelivered, Receipt, Updates
from klarm.channels.message import Message
from klarm.delivery import log as deliveries
from klarm.delivery.log import Delivered, Key, key_of
from klarm.delivery.outbox import Outbox
from klarm.delivery.routes import Run
from klarm.delivery.worker import Worker
from klarm.delivery.writer import MessageWriter
from klarm.journal import append_command, new_key
from klarm.journal.file import FileJournal
from klarm.journal.records import Started
from klarm.types import RINGING, Command, Event, EventKind, Severity


@dataclass(kw_only=True, repr=False)
class Service(Channel):
    """Takes messages, or fails as the test asks for."""

    type: ClassVar[str] = "service"
    kind: Updates = "none"
    fails: int = 0
    messages: list[Message] = field(default_factory=list)

    @property
    def updates(self) -> Updates:
        return self.kind

    def send(self, message: Message, earlier: Mapping[str, str]) -> Receipt:
        if self.fails:
            self.fails -= 1
            raise NotDelivered("down", retry=True)
        self.messages.append(message)
        return {"first": earlier.get("first", message.id)}


@dataclass
class Everything:
    channel: Channel
    repeat_after: float = 0.0
    repeat_severity: Severity = "critical"

    def takes(self, message: Message) -> bool:
        return True


# What an incident may do next, by what it did last.
NEXT: dict[EventKind, list[EventKind]] = {
    "opened": ["escalated", "settled", "resolved", "ended"],
    "escalated": ["escalated", "settled", "resolved", "ended"],
    "settled": ["reopened", "resolved", "ended"],
    "reopened": ["escalated", "settled", "resolved", "ended"],
    "resolved": ["reopened"],
    "ended": ["reopened"],
}
things = st.lists(
    st.sampled_from(
        ["event", "event", "event", "turn", "turn", "fail", "restart", "silence", "ack"]
    ),
    max_size=60,
)


@settings(max_examples=60, deadline=None)
@given(things, st.sampled_from(["none", "edits", "posts"]), st.randoms(use_true_random=False))
def test_every_event_is_delivered_once_and_in_order(
    happenings: list[str], updates: Updates, chance: object
) -> None:
    """Across failures, restarts, silences and acknowledgements of random incidents."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        journal = FileJournal(folder, print)
        journal.record(Started("a", 1000.0, "0", "host", {}))
        service, now, step = Service(name="hook", kind=updates), 5000.0, 0
        last: dict[str, Event] = {}
        events: list[Event] = []

        def start() -> Worker:
            return Worker(
                Everything(service),
                Outbox(folder, clock=lambda: now),
                MessageWriter(clock=lambda: now),
                Run("a", folder),
                print,
                behind=True,
                clock=lambda: now,
                monotonic=lambda: now,
                jitter=lambda: 0.0,
            )

        worker = start()
        for what in happenings:
            now += 1.0
            if what == "event":
                step += 1
                number = chance.randint(1, 4)  # type: ignore[attr-defined]
                before = last.get(f"k{number:07}")
                kind = chance.choice(NEXT[before.event]) if before else "opened"  # type: ignore[attr-defined]
                rises = kind in ("opened", "escalated") and chance.random() < 0.3  # type: ignore[attr-defined]
                critical = rises or (before and before.severity == "critical")
                severity: Severity = "critical" if critical else "warning"
                seq = before.seq + 1 if before else 1
                event = event_of(kind, number, step, severity, seq=seq)
                last[event.id] = event
                events.append(event)
                journal.record(event)
                worker.put(event)
            elif what == "turn":
                worker.turn()
            elif what == "fail":
                service.fails += 2
            elif what == "restart":
                worker._outbox.release()
                worker = start()
            else:
                incident = f"k{chance.randint(1, 4):07}"  # type: ignore[attr-defined]
                command = Command(
                    command="ack" if what == "ack" else "silence",
                    key=new_key(),
                    time=now,
                    by="ada",
                    incident=incident if what == "ack" else "",
                    signal="kl" if what == "silence" else "",
                    until_time=now + 100.0,
                )
                append_command(folder, command)
        service.fails = 0
        now += 1000.0
        for _ in range(1000):
            pause = worker.turn()
            if pause is None:
                break
            now += pause
        journal.close(1.0)
        worker._outbox.release()

        assert not worker.pending
        check(folder, service, events)


def check(folder: Path, service: Service, events: list[Event]) -> None:
    """Hold what the service got, and what was recorded, against what happened."""
    outcomes: dict[Key, str] = {}
    for _, entry in deliveries.read(folder):
        assert isinstance(entry, Delivered)
        assert entry.key not in outcomes, "recorded once"
        outcomes[entry.key] = entry.outcome
    sent: dict[str, list[int]] = {}
    for message in service.messages:
        sent.setdefault(message.id, []).append(message.step)
        assert message.event in RINGING or service.updates != "none"
    assert all(steps == sorted(set(steps)) for steps in sent.values()), "in order, each once"
    listed = [
        (message.id, change.event, change.step, change.severity)
        for message in service.messages
        for change in message.changes
    ]
    accepted = [
        (event.id, event.event, event.step, event.severity)
        for event in events
        if outcomes.get(key_of(event)) == "sent"
    ]
    assert sorted(listed) == sorted(accepted), "a message lists each change that it is about"
    for incident in {event.id for event in events}:
        own = [event for event in events if event.id == incident]
        # If an incident reopened, its earlier end is no news to those who were not notified of it.
        news = [e for e in own if e.event in ("opened", "escalated") or e is own[-1]]
        ringing = [event for event in news if event.event in RINGING]
        since = own[own.index(ringing[-1]) :]
        assert any(key_of(event) in outcomes for event in since), "the latest news is dealt with"
        if any(event.severity == "critical" for event in ringing):
            assert "sent" in {outcomes.get(key_of(event)) for event in own}
