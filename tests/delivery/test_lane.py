"""The way to one channel, turn by turn, with a clock of its own and a real server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from loopback import LoopbackChannel, LoopbackRoute, Server

from klarm.channels.base import Channel
from klarm.delivery import log as deliveries
from klarm.delivery import routes
from klarm.delivery.lane import MOST_IN_HAND, Lane
from klarm.delivery.log import Acknowledged, Silenced, Unsilenced
from klarm.delivery.outbox import Again, Outbox
from klarm.delivery.writer import MessageWriter
from klarm.journal.file import FILE_NAME, FileJournal
from klarm.journal.records import Started
from klarm.types import Event, EventKind, Severity

FOLDER = Path("klarm_runs/a")
BEGAN = 1000.0


class Run:
    """A run with a journal and a lane, on a clock that stands still unless it is moved."""

    def __init__(self, server: Server, *, folder: Path | None = FOLDER) -> None:
        self.now = 5000.0
        self.said: list[str] = []
        self.folder = folder
        self.server = server
        self.journal = None
        if folder is not None:
            self.journal = FileJournal(folder, print)
            self.journal.record(Started("a", BEGAN, "0", "host", {}))
        self.lane = self.new_lane()

    def new_lane(self, *, behind: bool = False, again: Again = "none", **route: object) -> Lane:
        """Return a lane as another process would have it."""
        channel = LoopbackChannel(name="hook", url=self.server.url)
        return Lane(
            LoopbackRoute(channel, **route),  # type: ignore[arg-type]
            Outbox(self.folder, again=again, clock=lambda: self.now),
            MessageWriter(clock=lambda: self.now),
            routes.Run("a", self.folder),
            self.said.append,
            behind=behind,
            clock=lambda: self.now,
            monotonic=lambda: self.now,
            jitter=lambda: 0.0,
        )

    def tell(
        self,
        kind: EventKind,
        incident: int = 1,
        step: int = 10,
        severity: Severity = "warning",
        signal: str = "kl",
    ) -> Event:
        """Record an event and hand it to the lane, as a monitor does."""
        event = Event(
            event=kind,
            incident=incident,
            signal=signal,
            severity=severity,
            step=step,
            started=step,
            detectors=["kl_explosion"],
            peak=float("nan"),
            reason=f"it {kind}",
            message="KL is high.",
            recommendation="Look.",
        )
        if self.journal is not None:
            self.journal.step(step, self.now, {"kl": 1.0})
            self.journal.record(event)
        self.lane.put(event)
        return event

    def settle(self, lane: Lane | None = None) -> float | None:
        """Take turns until there is nothing to do now; return how long to wait."""
        lane = lane or self.lane
        while True:
            pause = lane.turn()
            if pause is None or pause > 0:
                return pause


@pytest.fixture
def run(server: Server) -> Run:
    return Run(server)


def outcomes() -> list[tuple[int, str, str]]:
    return [
        (entry.incident, entry.event, entry.outcome)
        for _, entry in deliveries.read(FOLDER)
        if isinstance(entry, deliveries.Delivered)
    ]


def test_an_event_is_sent_once_and_recorded(run: Run, server: Server) -> None:
    """With its receipt, which the incident's next message gets."""
    run.tell("opened")
    assert run.settle() is None
    run.tell("resolved", step=30)
    assert run.settle() is None
    assert server.told() == [(1, "opened", 10), (1, "resolved", 30)]
    assert [message["earlier"] for message in server.messages] == [{}, {"thread": "t1"}]
    assert outcomes() == [(1, "opened", "sent"), (1, "resolved", "sent")]
    line = json.loads((FOLDER / "deliveries.jsonl").read_text().splitlines()[0])
    assert (line["channel"], line["attempts"], line["time"]) == ("hook", 1, 5000.0)
    assert line["receipt"] == {"thread": "t1"}


def test_a_service_that_fails_is_tried_again_with_growing_pauses(run: Run, server: Server) -> None:
    """500 three times, then 200: said once, recorded with four attempts."""
    server.answers = [(500, {}), (502, {}), (503, {})]
    run.tell("opened")
    pauses = []
    while (pause := run.settle()) is not None:
        pauses.append(pause)
        assert run.settle() == pause  # too early: nothing is sent
        run.now += pause
    assert pauses == [0.5, 1.0, 2.0]
    assert len(server.messages) == 4
    assert [entry.attempts for _, entry in deliveries.read(FOLDER)] == [4]  # type: ignore[union-attr]
    assert run.said == [
        "hook was not reached (HTTP 500); it is tried again until it is",
        "hook is reached again",
    ]


def test_pauses_grow_up_to_five_minutes(run: Run, server: Server) -> None:
    """However long a service is down, it is not given up."""
    server.answers = [(500, {})] * 40
    run.tell("opened")
    pause = None
    for _ in range(40):
        pause = run.settle()
        assert pause is not None
        run.now += pause
    assert pause == 150.0  # half of it is left to chance
    assert run.settle() is None
    assert outcomes() == [(1, "opened", "sent")]


def test_a_service_that_asks_for_patience_gets_it(run: Run, server: Server) -> None:
    """429 with Retry-After: not a moment earlier, for any message."""
    server.answers = [(429, {"Retry-After": "37"})]
    run.tell("opened")
    assert run.settle() == 37.0
    run.tell("opened", incident=2, step=11, signal="loss")
    run.now += 36.9
    assert run.settle() == pytest.approx(0.1)
    assert len(server.messages) == 1
    run.now += 0.1
    assert run.settle() is None
    assert server.told()[1:] == [(2, "opened", 11), (1, "opened", 10)]


def test_a_refusal_is_said_once_and_after_three_the_channel_has_time_to_be_mended(
    run: Run, server: Server
) -> None:
    """401: what was not tried stays owed; it is said when it is, and how to check."""
    server.answers = [(401, {})] * 10
    for incident in range(1, 6):
        run.tell("opened", incident=incident, step=incident)
    assert run.settle() == 900.0
    assert [incident for incident, _, _ in server.told()] == [1, 2, 3]
    assert outcomes() == [(n, "opened", "refused") for n in (1, 2, 3)]
    assert run.said == [
        "hook refuses messages (HTTP 401); the next start of the run tries once more what is still "
        "open then",
        "hook refused 3 in a row; it is tried again every 15 minutes; mend it and check with "
        "`klarm test-alert`",
    ]
    assert run.lane.is_refusing
    assert run.lane.owes


def test_a_channel_that_is_mended_is_told_all_that_came_since_the_third_refusal(
    run: Run, server: Server
) -> None:
    """It is tried every 15 minutes, each time with another incident; no refusal settles one."""
    server.answers = [(401, {})] * 6
    for incident in range(1, 4):
        run.tell("opened", incident=incident, step=incident)
    run.settle()
    server.messages.clear()
    for incident in (4, 5):
        run.tell("opened", incident=incident, step=incident)
    assert run.settle() == 900.0
    for _ in range(3):
        run.now += 900.0
        assert run.settle() == 900.0
    assert server.told() == [(4, "opened", 4), (5, "opened", 5), (4, "opened", 4)]
    assert len(outcomes()) == 3
    run.tell("resolved", incident=4, step=40)
    run.now += 899.0
    assert run.settle() == 1.0
    run.now += 1.0
    assert run.settle() is None
    assert server.told()[3:] == [(4, "resolved", 40), (5, "opened", 5)]
    assert not run.lane.owes
    assert run.said[-1] == "hook takes messages again"
    server.answers = [(401, {})]
    run.tell("opened", incident=6, step=50)
    assert run.settle() is None
    assert outcomes()[-1] == (6, "opened", "refused")


def test_what_waits_for_a_channel_to_be_mended_is_held_by_the_journal(
    run: Run, server: Server
) -> None:
    """A hundred are kept in memory; all are sent in the end."""
    server.answers = [(401, {})] * 8
    for incident in range(1, 501):
        run.tell("opened", incident=incident, step=incident)
        if incident % 50 == 0:
            run.settle()
            run.now += 900.0 * (incident <= 250)
        assert run.lane._hand.size + run.lane._inbox.qsize() <= MOST_IN_HAND
    run.now += 900.0
    while (pause := run.settle()) is not None:
        run.now += pause
    refused = [number for number, _, outcome in outcomes() if outcome == "refused"]
    sent = [number for number, _, outcome in outcomes() if outcome == "sent"]
    assert refused == [1, 2, 3]
    assert sorted(sent) == list(range(4, 501))


def test_a_channel_that_refuses_and_then_fails_is_tried_until_it_answers(
    run: Run, server: Server
) -> None:
    """As any other; then again every 15 minutes."""
    server.answers = [(401, {})] * 3 + [(503, {}), (401, {})]
    for incident in range(1, 5):
        run.tell("opened", incident=incident, step=incident)
    pauses = []
    while (pause := run.settle()) is not None:
        pauses.append(pause)
        run.now += pause
    assert pauses == [900.0, 0.5, 900.0]
    assert outcomes()[-1] == (4, "opened", "sent")


def test_what_was_refused_is_sent_again_only_when_asked_for(run: Run, server: Server) -> None:
    """The next start sends what was not tried; --again sends the rest."""
    server.answers = [(401, {})] * 3
    for incident in range(1, 6):
        run.tell("opened", incident=incident, step=incident)
    run.settle()
    run.lane._outbox.release()
    later = run.new_lane(behind=True)
    assert run.settle(later) is None
    assert [incident for incident, _, _ in server.told()[3:]] == [4, 5]
    later._outbox.release()
    assert run.settle(run.new_lane(behind=True, again="all")) is None
    assert [incident for incident, _, _ in server.told()[5:]] == [1, 2, 3]


def test_the_next_start_tries_once_more_what_was_refused_and_is_still_open(
    run: Run, server: Server
) -> None:
    """A token that was mended in between: nobody has to ask. What is over is left refused."""
    server.answers = [(401, {})] * 2
    run.tell("opened", incident=1, step=1)
    run.tell("opened", incident=2, step=2)
    run.settle()
    run.tell("resolved", incident=2, step=30)
    server.answers = [(401, {})]
    run.settle()
    run.lane._outbox.release()
    later = run.new_lane(behind=True, again="open")
    assert run.settle(later) is None
    assert server.told()[3:] == [(1, "opened", 1)]
    assert outcomes()[-1] == (1, "opened", "sent")


def test_what_is_refused_once_more_does_not_keep_new_incidents_from_being_sent(
    run: Run, server: Server
) -> None:
    """Messages that a service never takes do not make the channel be left alone at every start."""
    for incident in range(1, 5):
        server.answers = [(400, {})]
        run.tell("opened", incident=incident, step=incident)
        run.settle()
        server.answers = []
        run.tell("opened", incident=10 + incident, step=10 + incident)
        run.settle()
    run.lane._outbox.release()
    server.messages.clear()
    server.answers = [(400, {})] * 4
    run.lane = run.new_lane(behind=True, again="open")
    run.settle()
    run.tell("opened", incident=20, step=20)
    run.settle()
    assert [incident for incident, _, _ in server.told()] == [1, 2, 3, 4, 20]
    run.settle()
    assert len(server.messages) == 5


def test_a_refused_message_does_not_end_a_channel_that_works(run: Run, server: Server) -> None:
    """One 400 is about the message."""
    server.answers = [(400, {}), (200, {}), (400, {}), (200, {}), (400, {}), (200, {})]
    for incident in range(1, 7):
        run.tell("opened", incident=incident, step=incident)
        run.settle()
    assert [outcome for _, _, outcome in outcomes()] == ["refused", "sent"] * 3
    assert not run.lane.is_refusing


def test_an_escalation_is_never_sent_before_the_opening(run: Run, server: Server) -> None:
    """If the opening did not get through, one message says both."""
    server.answers = [(500, {})]
    run.tell("opened")
    pause = run.settle()
    run.tell("escalated", step=12, severity="critical")
    assert pause is not None
    run.now += pause
    assert run.settle() is None
    assert server.told()[1:] == [(1, "opened", 12)]
    assert server.messages[1]["severity"] == "critical"
    assert "opened at step 10" in server.messages[1]["body"]
    assert outcomes() == [(1, "opened", "sent"), (1, "escalated", "sent")]


def test_what_opened_and_is_over_before_anybody_was_told_is_one_message(
    run: Run, server: Server
) -> None:
    """Each event is recorded as delivered."""
    server.answers = [(500, {})]
    run.tell("opened")
    pause = run.settle()
    run.tell("escalated", step=12, severity="critical")
    run.tell("resolved", step=40, severity="critical")
    assert pause is not None
    run.now += pause
    assert run.settle() is None
    assert server.told()[1:] == [(1, "resolved", 40)]
    assert "opened at step 10" in server.messages[1]["body"]
    assert [event for _, event, _ in outcomes()] == ["opened", "escalated", "resolved"]


def test_a_message_that_always_fails_does_not_hold_up_others(run: Run, server: Server) -> None:
    """The next try is another incident's."""
    server.answers = [(500, {}), (200, {}), (500, {}), (200, {})]
    run.tell("opened", incident=1)
    run.tell("opened", incident=2, step=11)
    run.tell("opened", incident=3, step=12)
    for _ in range(3):
        pause = run.settle()
        run.now += pause or 0.0
    assert [incident for incident, _, _ in server.told()] == [1, 2, 3, 1, 3]


def test_a_burst_of_a_thousand_incidents_is_held_by_the_journal(run: Run, server: Server) -> None:
    """A hundred are kept in memory; all are sent, in order, and none twice."""
    server.answers = [(500, {})]
    run.tell("opened", incident=1, step=1)
    pause = run.settle()
    for incident in range(2, 1001):
        run.tell("opened", incident=incident, step=incident)
        if incident % 50 == 0:
            run.settle()  # too early, but it takes in what came
        assert run.lane._hand.size + run.lane._inbox.qsize() <= MOST_IN_HAND
    run.now += pause or 0.0
    while run.settle() is not None:
        run.now += 2.0
    told = [incident for incident, _, _ in server.told()[1:]]
    assert sorted(told) == list(range(1, 1001))
    assert [n for n in told if n != 1] == list(range(2, 1001))
    run.tell("resolved", incident=1000, step=1001)
    assert run.settle() is None
    assert server.told()[-1] == (1000, "resolved", 1001)


def test_an_event_that_is_not_on_disk_yet_is_waited_for(run: Run, server: Server) -> None:
    """A slow disk has a thread write behind a queue; the lane looks again."""
    run.lane._behind = True
    event = run.tell("opened")
    whole = (FOLDER / FILE_NAME).read_bytes()
    cut = whole.rindex(b'{"type":"event"')
    (FOLDER / FILE_NAME).write_bytes(whole[: cut + 30])
    assert run.settle() == 2.0
    (FOLDER / FILE_NAME).write_bytes(whole)
    run.now += 2.0
    assert run.settle() is None
    assert server.told() == [(event.incident, "opened", event.step)]
    assert not run.lane.owes


def test_without_a_folder_events_are_sent_all_the_same(server: Server) -> None:
    """A run that cannot be recorded is still told of."""
    run = Run(server, folder=None)
    run.tell("opened")
    run.tell("opened", incident=2, step=11)
    assert run.settle() is None
    assert len(server.messages) == 2
    for incident in range(3, 300):
        run.tell("opened", incident=incident, step=incident)
    assert run.settle() is None
    assert len(server.messages) == 2 + MOST_IN_HAND
    assert run.said == ["the run is not recorded, so events that found no room are lost"]


def test_the_next_process_sends_what_is_owed_and_nothing_else(run: Run, server: Server) -> None:
    """Of three incidents, one was told, one half, one not at all."""
    run.tell("opened", incident=1, step=1)
    run.tell("opened", incident=2, step=2)
    run.settle()
    server.messages.clear()
    run.tell("resolved", incident=2, step=3)
    run.tell("opened", incident=3, step=4)
    run.lane._outbox.release()
    assert run.settle(run.new_lane(behind=True)) is None
    assert server.told() == [(2, "resolved", 3), (3, "opened", 4)]


def test_two_processes_never_deliver_one_run_at_once(run: Run, server: Server) -> None:
    """The second waits until the first lets go, and sends only what is left then."""
    run.tell("opened")
    run.settle()
    run.tell("resolved", step=30)
    other = run.new_lane(behind=True)
    assert run.settle(other) == 15.0
    assert len(server.messages) == 1
    run.settle()
    run.lane._outbox.release()
    assert run.settle(other) is None
    assert server.told() == [(1, "opened", 10), (1, "resolved", 30)]


def test_a_new_run_of_the_same_name_is_told_of(run: Run, server: Server) -> None:
    """Its journal was deleted, the deliveries beside it were not."""
    global BEGAN  # noqa: PLW0603
    run.tell("opened")
    run.settle()
    run.lane._outbox.release()
    (FOLDER / FILE_NAME).unlink()
    assert run.journal is not None
    run.journal.close(1.0)
    BEGAN += 1.0
    again = Run(server)
    again.tell("opened")
    assert again.settle() is None
    assert len(server.messages) == 2


def test_a_torn_line_of_the_deliveries_is_passed_over(run: Run, server: Server) -> None:
    """What follows is not glued to it."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "deliveries.jsonl").write_bytes(b'{"type":"delivery","began":10')
    run.tell("opened")
    assert run.settle() is None
    assert outcomes() == [(1, "opened", "sent")]


def test_deliveries_that_cannot_be_written_are_said_once(run: Run, server: Server) -> None:
    """And nothing is sent twice by this process."""
    (FOLDER / "deliveries.jsonl").symlink_to("/dev/full")
    for incident in (1, 2):
        run.tell("opened", incident=incident, step=incident)
    run.lane._behind = True  # it reads them once more from the journal
    while run.settle() is not None:
        run.now += 2.0
    assert len(server.messages) == 2
    assert len(run.said) == 1
    assert run.said[0].startswith("cannot write deliveries.jsonl (No space left on device)")


def test_a_channel_that_does_not_take_a_message_is_not_sent_it(run: Run, server: Server) -> None:
    """It takes the critical alone: it hears when it got that far, and when it is over."""
    run.lane = run.new_lane(severities=["critical"])
    run.tell("opened")
    run.settle()
    run.tell("escalated", step=12, severity="critical")
    run.settle()
    run.tell("resolved", step=40, severity="critical")
    run.settle()
    assert server.told() == [(1, "escalated", 12), (1, "resolved", 40)]


def test_a_failure_of_our_own_waits_and_lets_others_first(run: Run, server: Server) -> None:
    """A channel with a bug in it, for one incident."""

    class Buggy(LoopbackChannel):
        def send(self, message, earlier):  # type: ignore[no-untyped-def]
            if message.incident == 1:
                raise KeyError("https://secret")
            return super().send(message, earlier)

    channel: Channel = Buggy(name="hook", url=server.url)
    run.lane._route = LoopbackRoute(channel)  # type: ignore[arg-type]
    run.tell("opened", incident=1)
    run.tell("opened", incident=2, step=11)
    with pytest.raises(KeyError) as failure:
        run.lane.turn()
    assert run.lane.stumble(failure.value) == 0.5
    run.now += 0.5
    assert run.lane.turn() == 0.0
    assert server.told() == [(2, "opened", 11)]
    assert run.said[0].startswith("hook was not reached (KeyError inside klarm)")


def silence(**how: object) -> None:
    settings = {"began": BEGAN, "signal": "kl", "by": "me", "time": 5000.0, **how}
    deliveries.append(FOLDER, Silenced(**settings))  # type: ignore[arg-type]


def test_a_silenced_signal_is_not_told_of_but_the_others_are(run: Run, server: Server) -> None:
    """It is recorded that it was silenced, once it is over."""
    silence(until_time=6000.0)
    run.tell("opened")
    run.tell("opened", incident=2, step=11, signal="loss")
    run.settle()
    run.tell("resolved", step=40)
    run.settle()
    assert server.told() == [(2, "opened", 11)]
    assert outcomes() == [(2, "opened", "sent"), (1, "resolved", "silenced")]
    run.now = 7000.0
    assert run.settle() is None
    assert len(server.messages) == 1


def test_what_is_still_open_when_a_silence_ends_is_told_then(run: Run, server: Server) -> None:
    """Muted, and not lost."""
    silence(until_time=5020.0)
    run.tell("opened")
    assert run.settle() == 15.0
    run.now += 15.0
    assert run.settle() == 15.0
    assert server.messages == []
    run.now += 15.0
    assert run.settle() is None
    assert server.told() == [(1, "opened", 10)]


def test_a_silence_may_be_counted_in_steps(run: Run, server: Server) -> None:
    """Those of the run, not of the incident."""
    silence(until_step=100)
    run.tell("opened")
    assert run.settle() == 15.0
    run.now += 15.0
    run.tell("opened", incident=2, step=100)
    assert run.settle() == 15.0
    assert server.messages == []
    assert run.journal is not None
    run.journal.step(101, run.now, {"kl": 1.0})
    run.now += 15.0
    assert run.settle() is None
    assert server.told() == [(1, "opened", 10), (2, "opened", 100)]


def test_a_silence_does_not_hold_back_the_critical_unless_it_says_so(
    run: Run, server: Server
) -> None:
    """NaN is always critical: it cannot be silenced by accident."""
    silence(until_time=6000.0)
    run.tell("opened", incident=1, severity="critical")
    run.tell("opened", incident=2, step=11)
    run.settle()
    run.tell("escalated", incident=2, step=12, severity="critical")
    run.settle()
    assert server.told() == [(1, "opened", 10), (2, "escalated", 12)]
    silence(until_time=6000.0, even_critical=True)
    run.tell("opened", incident=3, step=13, severity="critical")
    run.settle()
    assert len(server.messages) == 2


def test_many_silenced_incidents_do_not_hold_up_the_others(run: Run, server: Server) -> None:
    """More than fit into memory."""
    silence(until_time=6000.0)
    for incident in range(1, 251):
        run.tell("opened", incident=incident, step=incident)
    run.tell("opened", incident=251, step=251, signal="loss")
    for _ in range(10):
        run.settle()
        run.now += 15.0
    assert server.told() == [(251, "opened", 251)]
    run.now = 6000.0
    while run.settle() is not None:
        run.now += 15.0
    assert len(server.messages) == 251


def test_the_end_of_what_was_told_is_told_in_a_silence_too(run: Run, server: Server) -> None:
    """A pager must not ring on for something that is over."""
    run.tell("opened")
    run.settle()
    silence(until_time=6000.0, even_critical=True)
    run.tell("resolved", step=40)
    run.settle()
    assert server.told() == [(1, "opened", 10), (1, "resolved", 40)]


def test_an_acknowledged_incident_is_told_of_only_when_it_gets_worse_or_ends(
    run: Run, server: Server
) -> None:
    """Whoever acknowledged it knows that it opened."""
    server.answers = [(500, {})]
    run.tell("opened")
    pause = run.settle()
    deliveries.append(FOLDER, Acknowledged(began=BEGAN, incident=1, by="me", time=5000.0))
    run.now += pause or 0.0
    assert run.settle() is None
    assert len(server.messages) == 1
    run.tell("escalated", step=12, severity="critical")
    run.settle()
    run.tell("resolved", step=40, severity="critical")
    run.settle()
    assert server.told()[1:] == [(1, "escalated", 12), (1, "resolved", 40)]
    assert outcomes()[0] == (1, "opened", "acknowledged")


def test_that_an_acknowledged_warning_became_far_worse_is_told(run: Run, server: Server) -> None:
    """Who acknowledged it knew of something smaller."""
    run.tell("opened")
    run.settle()
    deliveries.append(FOLDER, Acknowledged(began=BEGAN, incident=1, by="me", time=5000.0))
    run.tell("escalated", step=212)
    run.settle()
    assert server.told() == [(1, "opened", 10), (1, "escalated", 212)]


def test_the_end_of_an_incident_is_told_before_the_next_of_its_signal(
    run: Run, server: Server
) -> None:
    """Also when it failed at first: a pager would end the next one with it."""
    run.tell("opened")
    run.settle()
    server.answers = [(500, {})]
    run.tell("resolved", step=40)
    run.tell("opened", 2, step=50)
    run.tell("opened", 3, step=50, signal="loss")
    run.now += run.settle() or 0.0
    run.settle()
    assert server.told()[2:] == [(3, "opened", 50), (1, "resolved", 40), (2, "opened", 50)]


def test_who_was_told_of_a_critical_incident_is_told_its_end(server: Server) -> None:
    """Though after a rollback it ends as a warning, which the channel does not take."""
    run = Run(server)
    run.lane = run.new_lane(severities=["critical"])
    run.tell("opened", severity="critical")
    run.settle()
    run.tell("resolved", step=40)
    run.settle()
    assert server.told() == [(1, "opened", 10), (1, "resolved", 40)]


def test_a_journal_that_cannot_be_read_for_once_is_read_again(
    run: Run, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What earlier processes owe is not forgotten over it."""
    run.tell("opened")
    lane = run.new_lane(behind=True)
    with monkeypatch.context() as broken:
        broken.setattr(Path, "open", Mistake())
        with pytest.raises(OSError, match="stale"):
            lane.turn()
    assert lane.owes
    run.settle(lane)
    assert server.told() == [(1, "opened", 10)]


def test_after_a_long_outage_no_end_comes_after_the_next_opening_on_a_pager(
    run: Run, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that could not be sent before it is given up: it would end the other."""
    monkeypatch.setattr(LoopbackChannel, "one_a_signal", True)
    run.tell("opened")
    run.settle()
    server.answers = [(500, {})] * 14
    run.tell("resolved", step=40)
    run.tell("opened", 2, step=50)
    while (pause := run.settle()) is not None:
        run.now += pause
    assert server.told()[-1] == (2, "opened", 50)
    assert not run.lane.owes


def test_after_a_long_outage_every_other_channel_is_told_everything(
    run: Run, server: Server
) -> None:
    """In whatever order."""
    run.tell("opened")
    run.settle()
    server.answers = [(500, {})] * 14
    run.tell("resolved", step=40)
    run.tell("opened", 2, step=50)
    while (pause := run.settle()) is not None:
        run.now += pause
    assert {(1, "resolved", "sent"), (2, "opened", "sent")} <= set(outcomes())


def test_a_silence_that_is_over_is_heeded_though_a_message_keeps_failing(
    run: Run, server: Server
) -> None:
    """What is new, or was held back, is sent before what has failed."""
    silence = Silenced(began=BEGAN, signal="kl", by="me", time=5000.0, until_time=5060.0)
    deliveries.append(FOLDER, silence)
    run.tell("opened")
    run.settle()
    server.broken = {2}
    run.tell("opened", 2, step=20, signal="loss")
    for _ in range(8):
        run.now += run.settle() or 0.0
    assert (1, "opened", 10) in server.told()


def test_a_record_that_may_not_be_read_keeps_nobody_from_being_told(
    run: Run, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else's file: better told twice than not at all, and it is said."""

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(deliveries, "read", refuse)
    run.tell("opened")
    run.settle()
    assert server.told() == [(1, "opened", 10)]
    assert "cannot read deliveries.jsonl (Permission denied)" in run.said[0]


class Mistake:
    def __call__(self, *_: object) -> None:
        raise OSError("stale file handle")


def test_an_acknowledgement_keeps_no_critical_incident_from_being_sent(
    run: Run, server: Server
) -> None:
    """One colleague knows of it; those on this channel do not. They are told who does."""
    server.answers = [(500, {})]
    run.tell("opened", severity="critical")
    pause = run.settle()
    for name in ("ada", "bob", "ada"):
        deliveries.append(FOLDER, Acknowledged(began=BEGAN, incident=1, by=name, time=5000.0))
    run.now += pause or 0.0
    assert run.settle() is None
    assert server.told()[1:] == [(1, "opened", 10)]
    assert server.messages[1]["fields"]["Acknowledged by"] == "ada, bob"
    assert "Acknowledged by: ada, bob" in server.messages[1]["body"]


def test_a_critical_incident_that_was_acknowledged_and_is_over_is_still_told(
    run: Run, server: Server
) -> None:
    """In one message; one that was never critical is not."""
    server.answers = [(500, {})]
    run.tell("opened", severity="critical")
    pause = run.settle()
    run.tell("opened", incident=2, step=11)
    for incident in (1, 2):
        entry = Acknowledged(began=BEGAN, incident=incident, by="ada", time=5000.0)
        deliveries.append(FOLDER, entry)
    run.tell("resolved", step=40, severity="critical")
    run.tell("resolved", incident=2, step=41)
    run.now += pause or 0.0
    run.settle()
    assert server.told()[1:] == [(1, "resolved", 40)]
    assert outcomes()[2:] == [(2, "opened", "acknowledged"), (2, "resolved", "acknowledged")]


def test_a_silence_that_is_ended_early_holds_nothing_back(run: Run, server: Server) -> None:
    """A live run sees it when it looks again."""
    silence(until_time=9000.0)
    silence(until_step=1000)
    silence(until_time=9000.0, signal="loss")
    run.tell("opened")
    run.tell("opened", incident=2, step=11, signal="loss")
    assert run.settle() == 15.0
    deliveries.append(FOLDER, Unsilenced(began=BEGAN, signal="kl", by="me", time=5001.0))
    run.now += 15.0
    assert run.settle() == 15.0
    assert server.told() == [(1, "opened", 10)]
