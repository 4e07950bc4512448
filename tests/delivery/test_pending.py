"""What is pending: from memory and from the journal, for this process and the next."""

from __future__ import annotations

from pathlib import Path

import pytest
from loopback import Server
from one_channel import BEGAN, FOLDER, Run, outcomes

from klarm.delivery.pending import MAX_PENDING
from klarm.journal.file import FILE_NAME


class Mistake:
    def __call__(self, *_: object) -> None:
        raise OSError("stale file handle")


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
        assert run.worker.pending.size <= MAX_PENDING
    run.now += 900.0
    while (pause := run.settle()) is not None:
        run.now += pause
    refused = [number for number, _, outcome in outcomes() if outcome == "refused"]
    sent = [number for number, _, outcome in outcomes() if outcome == "sent"]
    assert refused == [1, 2, 3]
    assert sorted(sent) == list(range(1, 501))


def test_a_burst_of_a_thousand_incidents_is_held_by_the_journal(run: Run, server: Server) -> None:
    """A hundred are kept in memory; all are sent, in order, and none twice."""
    server.answers = [(500, {})]
    run.tell("opened", incident=1, step=1)
    pause = run.settle()
    for incident in range(2, 1001):
        run.tell("opened", incident=incident, step=incident)
        if incident % 50 == 0:
            run.settle()  # too early, but it takes in what came
        assert run.worker.pending.size <= MAX_PENDING
    run.now += pause or 0.0
    while run.settle() is not None:
        run.now += 2.0
    sent = [incident for incident, _, _ in server.received()[1:]]
    assert sorted(sent) == list(range(1, 1001))
    assert [n for n in sent if n != 1] == list(range(2, 1001))
    run.tell("resolved", incident=1000, step=1001)
    assert run.settle() is None
    assert server.received()[-1] == (1000, "resolved", 1001)


def test_an_event_that_is_not_on_disk_yet_is_waited_for(run: Run, server: Server) -> None:
    """A slow disk has a thread write behind a queue; the worker looks again."""
    run.worker.pending._behind = True
    event = run.tell("opened")
    whole = (FOLDER / FILE_NAME).read_bytes()
    cut = whole.rindex(b'{"type":"event"')
    (FOLDER / FILE_NAME).write_bytes(whole[: cut + 30])
    assert run.settle() == 2.0
    (FOLDER / FILE_NAME).write_bytes(whole)
    run.now += 2.0
    assert run.settle() is None
    assert server.received() == [(event.incident, "opened", event.step)]
    assert not run.worker.pending


def test_without_a_folder_events_are_sent_all_the_same(server: Server) -> None:
    """People are notified of a run that cannot be recorded."""
    run = Run(server, folder=None)
    run.tell("opened")
    run.tell("opened", incident=2, step=11)
    assert run.settle() is None
    assert len(server.messages) == 2
    for incident in range(3, 300):
        run.tell("opened", incident=incident, step=incident)
    assert run.settle() is None
    assert len(server.messages) == 2 + MAX_PENDING
    assert run.said == ["The run is not recorded, so events that did not fit into memory are lost."]


def test_the_next_process_sends_what_is_owed_and_nothing_else(run: Run, server: Server) -> None:
    """Of three incidents, one was sent, one partly, one not at all."""
    run.tell("opened", incident=1, step=1)
    run.tell("opened", incident=2, step=2)
    run.settle()
    server.messages.clear()
    run.tell("resolved", incident=2, step=3)
    run.tell("opened", incident=3, step=4)
    run.worker._outbox.release()
    assert run.settle(run.new_worker(behind=True)) is None
    assert server.received() == [(2, "resolved", 3), (3, "opened", 4)]


def test_two_processes_never_deliver_one_run_at_once(run: Run, server: Server) -> None:
    """The second waits until the first lets go, and sends only what is left then."""
    run.tell("opened")
    run.settle()
    run.tell("resolved", step=30)
    other = run.new_worker(behind=True)
    assert run.settle(other) == 15.0
    assert len(server.messages) == 1
    run.settle()
    run.worker._outbox.release()
    assert run.settle(other) is None
    assert server.received() == [(1, "opened", 10), (1, "resolved", 30)]


def test_people_are_notified_of_a_new_run_of_the_same_name(run: Run, server: Server) -> None:
    """Its journal was deleted, the deliveries beside it were not."""
    run.tell("opened")
    run.settle()
    run.worker._outbox.release()
    (FOLDER / FILE_NAME).unlink()
    assert run.journal is not None
    run.journal.close(1.0)
    again = Run(server, began=BEGAN + 1.0)
    again.tell("opened", id="kq7x2abc")
    assert again.settle() is None
    assert len(server.messages) == 2


def test_a_journal_that_cannot_be_read_for_once_is_read_again(
    run: Run, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What earlier processes owe is not forgotten over it."""
    run.tell("opened")
    worker = run.new_worker(behind=True)
    with monkeypatch.context() as broken:
        broken.setattr(Path, "open", Mistake())
        with pytest.raises(OSError, match="stale"):
            worker.turn()
    assert worker.pending
    run.settle(worker)
    assert server.received() == [(1, "opened", 10)]
