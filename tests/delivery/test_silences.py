"""Acknowledgements and silences: what they hold back, and what they never do."""

from __future__ import annotations

import time

import pytest
from loopback import Server
from one_channel import Run, ack, command, outcomes, silence

import klarm
from klarm.delivery.dispatcher import Delivery


def test_a_silenced_signal_notifies_nobody_but_the_others_do(run: Run, server: Server) -> None:
    """It is recorded that it was silenced, once it is over."""
    silence(until_time=6000.0)
    run.tell("opened")
    run.tell("opened", incident=2, step=11, signal="loss")
    run.settle()
    run.tell("resolved", step=40)
    run.settle()
    assert server.received() == [(2, "opened", 11)]
    assert outcomes() == [(2, "opened", "sent"), (1, "resolved", "silenced")]
    run.now = 7000.0
    assert run.settle() is None
    assert len(server.messages) == 1


def test_what_is_still_open_when_a_silence_ends_is_sent_then(run: Run, server: Server) -> None:
    """Muted, and not lost."""
    silence(until_time=5020.0)
    run.tell("opened")
    assert run.settle() == 15.0
    run.now += 15.0
    assert run.settle() == 15.0
    assert server.messages == []
    run.now += 15.0
    assert run.settle() is None
    assert server.received() == [(1, "opened", 10)]


def test_a_run_that_ends_right_after_a_silence_leaves_nothing_pending(server: Server) -> None:
    """It does not wait for the next check, which would be up to 15 seconds later."""
    hook = {"type": "webhook", "url": server.url}
    monitor = klarm.init("a", channels={"hook": hook}, kl_explosion={"confirm_steps": 1})
    silence(until_time=time.time() + 3600, at=time.time())
    for step in range(41):
        monitor.log({"kl": 0.74 if step == 40 else 0.5 + 0.1 * (step % 2)})
    (delivery,) = (one for one in monitor.on_event if isinstance(one, Delivery))
    (worker,) = delivery._workers
    deadline = time.monotonic() + 20
    while not worker.held:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    command("silence_off", signal="kl", at=time.time())
    monitor.finish()
    assert [(m["event"], m["step"]) for m in server.messages][:1] == [("opened", 40)]


def test_a_run_that_ends_within_a_silence_says_what_is_held_back(
    server: Server, capfd: pytest.CaptureFixture[str]
) -> None:
    """Nobody would send it later otherwise."""
    hook = {"type": "webhook", "url": server.url}
    monitor = klarm.init("a", channels={"hook": hook}, kl_explosion={"confirm_steps": 1})
    silence(until_time=time.time() + 3600, at=time.time())
    for step in range(41):
        monitor.log({"kl": 0.74 if step == 40 else 0.5 + 0.1 * (step % 2)})
    monitor.finish()
    said = " ".join(capfd.readouterr().err.split())
    assert "hook: messages are held back by a silence. Once it is over, this sends them:" in said
    assert "klarm deliver klarm_runs/a" in said
    assert server.messages == []


def test_a_silence_that_is_in_force_at_the_end_of_a_run_is_respected(
    run: Run, server: Server
) -> None:
    """What it holds back stays pending for a later process."""
    silence(until_time=5010.0)
    run.tell("opened")
    run.settle()
    for after, sent in ((4.0, []), (8.0, [(1, "opened", 10)])):
        run.now += after
        run.worker.pending.release_held()
        assert run.worker.pending
        run.settle()
        assert not run.worker.pending
        assert server.received() == sent


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
    assert server.received() == [(1, "opened", 10), (2, "opened", 100)]


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
    assert server.received() == [(1, "opened", 10), (2, "escalated", 12)]
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
    assert server.received() == [(251, "opened", 251)]
    run.now = 6000.0
    while run.settle() is not None:
        run.now += 15.0
    assert len(server.messages) == 251


def test_the_end_of_an_incident_that_was_sent_is_sent_in_a_silence_too(
    run: Run, server: Server
) -> None:
    """A pager must not ring on for something that is over."""
    run.tell("opened")
    run.settle()
    silence(until_time=6000.0, even_critical=True)
    run.tell("resolved", step=40)
    run.settle()
    assert server.received() == [(1, "opened", 10), (1, "resolved", 40)]


def test_an_acknowledged_incident_is_sent_only_when_it_gets_worse_or_ends(
    run: Run, server: Server
) -> None:
    """Whoever acknowledged it knows that it opened."""
    server.answers = [(500, {})]
    run.tell("opened")
    pause = run.settle()
    ack(1)
    run.now += pause or 0.0
    assert run.settle() is None
    assert len(server.messages) == 1
    run.tell("escalated", step=12, severity="critical")
    run.settle()
    run.tell("resolved", step=40, severity="critical")
    run.settle()
    assert server.received()[1:] == [(1, "escalated", 12), (1, "resolved", 40)]
    assert outcomes()[0] == (1, "opened", "acknowledged")


def test_that_an_acknowledged_warning_became_far_worse_is_sent(run: Run, server: Server) -> None:
    """Who acknowledged it knew of something smaller."""
    run.tell("opened")
    run.settle()
    ack(1)
    run.tell("escalated", step=212)
    run.settle()
    assert server.received() == [(1, "opened", 10), (1, "escalated", 212)]


def test_a_silence_that_is_over_is_heeded_though_a_message_keeps_failing(
    run: Run, server: Server
) -> None:
    """What is new, or was held back, is sent before what has failed."""
    silence(until_time=5060.0)
    run.tell("opened")
    run.settle()
    server.broken = {2}
    run.tell("opened", 2, step=20, signal="loss")
    for _ in range(8):
        run.now += run.settle() or 0.0
    assert (1, "opened", 10) in server.received()


def test_an_acknowledgement_keeps_no_critical_incident_from_being_sent(
    run: Run, server: Server
) -> None:
    """One colleague knows of it; those on this channel do not. The message says who does."""
    server.answers = [(500, {})]
    run.tell("opened", severity="critical")
    pause = run.settle()
    for name in ("ada", "bob", "ada"):
        ack(1, by=name)
    run.now += pause or 0.0
    assert run.settle() is None
    assert server.received()[1:] == [(1, "opened", 10)]
    assert server.messages[1]["fields"]["Acknowledged by"] == "ada, bob"
    assert "Acknowledged by: ada, bob" in server.messages[1]["body"]


def test_a_critical_incident_that_was_acknowledged_and_is_over_is_still_sent(
    run: Run, server: Server
) -> None:
    """In one message; one that was never critical is not."""
    server.answers = [(500, {})]
    run.tell("opened", severity="critical")
    pause = run.settle()
    run.tell("opened", incident=2, step=11)
    for incident in (1, 2):
        ack(incident, by="ada")
    run.tell("resolved", step=40, severity="critical")
    run.tell("resolved", incident=2, step=41)
    run.now += pause or 0.0
    run.settle()
    assert server.received()[1:] == [(1, "resolved", 40)]
    assert outcomes()[:2] == [(2, "opened", "acknowledged"), (2, "resolved", "acknowledged")]


def test_a_silence_that_is_ended_early_holds_nothing_back(run: Run, server: Server) -> None:
    """A live run sees it when it looks again."""
    silence(until_time=9000.0)
    silence(until_step=1000)
    silence(until_time=9000.0, signal="loss")
    run.tell("opened")
    run.tell("opened", incident=2, step=11, signal="loss")
    assert run.settle() == 15.0
    command("silence_off", signal="kl")
    run.now += 15.0
    assert run.settle() == 15.0
    assert server.received() == [(1, "opened", 10)]


def test_what_a_silence_held_back_comes_before_what_kept_failing(run: Run, server: Server) -> None:
    """Once it is over, one message says both, in the order in which they happened."""
    silence(until_time=5010.0)
    run.tell("opened")
    run.settle()
    server.answers = [(500, {})] * 6
    run.tell("escalated", step=12, severity="critical")
    while (pause := run.settle()) is not None:
        run.now += pause
    assert server.received()[-1] == (1, "opened", 10)
    assert "Opened at step 10: it opened. Escalated at step 12" in server.messages[-1]["body"]
    assert outcomes() == [(1, "opened", "sent"), (1, "escalated", "sent")]
