"""The heartbeat of a run: called while it makes progress, silent when it does not."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

import klarm
from klarm.channels.heartbeat import HeartbeatChannel
from klarm.delivery import heartbeat as module
from klarm.delivery.heartbeat import Heartbeat
from klarm.settings import Secret
from pulse import Pulse


def new_heartbeat(pulse: Pulse, steps: list[int], said: list[str]) -> Heartbeat:
    channel = HeartbeatChannel(name="alive", url=Secret(f"{pulse.url}/ping"), every_minutes=5.0)
    return Heartbeat(channel, lambda: len(steps), said.append)


def test_it_is_called_only_if_a_step_was_logged_since_the_last_call(pulse: Pulse) -> None:
    """Training that hangs is noticed by its silence, and so is one that never begins."""
    steps: list[int] = []
    said: list[str] = []
    heartbeat = new_heartbeat(pulse, steps, said)
    assert heartbeat.turn() == 60.0
    assert pulse.paths == []
    steps.append(0)
    assert heartbeat.turn() == 300.0
    assert heartbeat.turn() == 60.0
    assert len(pulse.paths) == 1
    steps.append(1)
    assert heartbeat.turn() == 300.0
    assert len(pulse.paths) == 2
    assert said == []


def test_a_call_that_fails_is_made_again_soon_and_said_once(pulse: Pulse) -> None:
    """Else one lost call would wake somebody."""
    said: list[str] = []
    heartbeat = new_heartbeat(pulse, [0], said)
    pulse.status = 500
    assert [heartbeat.turn(), heartbeat.turn()] == [60.0, 60.0]
    pulse.status = 200
    assert heartbeat.turn() == 300.0
    assert len(pulse.paths) == 3
    first, second = said
    assert first.startswith("alive: heartbeat failed (")
    assert second == "alive: heartbeat works again."


def test_a_run_calls_it_from_a_thread_of_its_own(
    pulse: Pulse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not notified of incidents, and the journal does not hold its address."""
    called = threading.Event()
    beat = HeartbeatChannel.beat

    def note(channel: HeartbeatChannel) -> None:
        assert threading.current_thread().name == "klarm-alive"
        beat(channel)
        called.set()

    monkeypatch.setattr(HeartbeatChannel, "beat", note)
    monkeypatch.setattr(module, "_RETRY_SECONDS", 0.01)
    alive = {"type": "heartbeat", "url": f"{pulse.url}/ping/5f0c-secret"}
    klarm.init("a", console=False, channels={"alive": alive})
    klarm.log({"kl": float("nan")}, 0)
    assert called.wait(30)
    klarm.finish()
    assert pulse.paths == ["/ping/5f0c-secret"]
    journal = Path("klarm_runs/a/journal.jsonl").read_text()
    assert "5f0c-secret" not in journal
    assert json.loads(journal.splitlines()[0])["config"]["channels"]["alive"]["every_minutes"] == 5
    assert not Path("klarm_runs/a/deliveries.jsonl").exists()
    assert not any(thread.name == "klarm-alive" for thread in threading.enumerate())


def test_where_another_process_delivers_nothing_is_called(pulse: Pulse) -> None:
    """The training node has no network then."""
    alive = {"type": "heartbeat", "url": f"{pulse.url}/ping"}
    klarm.init("a", console=False, channels={"alive": alive}, deliver="elsewhere")
    assert not any(thread.name == "klarm-alive" for thread in threading.enumerate())
