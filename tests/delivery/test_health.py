"""The health of a channel: what it took last, and what it still has to be sent."""

from __future__ import annotations

import json

from loopback import Server, run_klarm, run_python
from one_channel import FOLDER, Run, ack, silence

from klarm.delivery import deliveries, prospects_of
from klarm.delivery.health import ChannelHealth, health_of
from klarm.delivery.log import Delivered
from klarm.journal import checked


def health(run: Run) -> ChannelHealth:
    """Return that of the one channel, as another process sees it."""
    worker = run.new_worker()
    outbox, route = worker._outbox, worker._sender._route
    outbox.refresh()
    entries = [entry for _, entry in deliveries.read(FOLDER) if isinstance(entry, Delivered)]
    ahead = prospects_of(worker._sender._run, [route], outbox, run.now)
    (known,) = health_of(outbox, entries, ahead, [route.channel.name])
    return known


def test_it_tells_when_a_channel_last_took_a_message(run: Run) -> None:
    """Of any incident."""
    assert health(run).last_sent is None
    run.tell("opened")
    assert health(run).pending == 1
    run.settle()
    run.now += 100.0
    found = health(run)
    assert (found.last_sent, found.pending, found.rejected) == (5000.0, 0, 0)


def test_what_was_rejected_counts_until_it_is_taken_or_acknowledged(
    run: Run, server: Server
) -> None:
    """With what the service said."""
    server.answers = [(404, {}), (404, {})]
    run.tell("opened", incident=1)
    run.tell("opened", incident=2, step=11)
    run.settle()
    found = health(run)
    assert (found.rejected, found.last_rejected, found.reason) == (2, 5000.0, "HTTP 404")
    ack(1)
    assert health(run).rejected == 1
    run.now += 60.0
    run.settle()
    assert (health(run).rejected, health(run).reason) == (0, "")


def test_a_process_that_stops_delivering_notes_how_the_channels_stand(server: Server) -> None:
    """Beside the deliveries, with a checksum as they have it."""
    code = """
        import klarm
        klarm.init("a", console=False)
        klarm.log({"kl": float("nan")}, 0)
        klarm.finish(timeout=30)
    """
    channels = f"good={server.url}/good,bad={server.url}/bad"
    server.refusing = "/bad"
    assert run_python(code, channels).returncode == 0
    lines = (FOLDER / "deliveries.jsonl").read_bytes().splitlines()
    last = json.loads(lines[-1])
    assert (last["type"], checked(lines[-1])) == ("health", "good")
    stands = {known.pop("channel"): known for known in last["channels"]}
    assert stands["good"]["last_sent"] <= last["time"]
    assert stands["bad"] == {"last_sent": None, "pending": False, "rejected": 1, "dropped": False}
    assert run_klarm("deliver", "klarm_runs", channels=channels).stderr == ""


def test_what_a_silence_holds_back_is_not_pending(run: Run) -> None:
    """It is no fault of the channel."""
    silence(until_step=1000)
    run.tell("opened")
    run.settle()
    assert (health(run).pending, health(run).held_back) == (0, 1)
