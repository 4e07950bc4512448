"""Outgoing: channels hear of a monitor's events, or the end of the run says who will send them."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from loopback import Server

import klarm
from klarm.config import load
from klarm.delivery.outgoing import deliver_events, routes_of
from klarm.detectors import KLExplosionDetector
from klarm.journal import FileJournal, Started
from klarm.monitor import Monitor

FOLDER = Path("klarm_runs/a")


def end_of_run(folder: Path | None, timeout: float = 5.0, **settings: object) -> list[str]:
    """Watch a run with one incident; return what is said of its delivery."""
    said: list[str] = []
    journal = None
    if folder is not None:
        journal = FileJournal(folder, said.append)
        journal.record(Started("a", 1.0, "0", "host", {}))
    monitor = Monitor("a", [KLExplosionDetector()], journal)
    deliver_events(monitor, folder, load(None, settings), said.append, resumed=False)
    monitor.log({"kl": math.nan}, 3)
    monitor.finish(timeout)
    return said


def webhook(url: str) -> dict[str, object]:
    return {"hook": {"type": "webhook", "url": url}}


def test_without_channels_nobody_listens() -> None:
    """Nothing is started, and nothing is said."""
    assert end_of_run(FOLDER) == []


def test_a_channel_is_notified_before_the_run_ends(server: Server) -> None:
    """Of the opening; then there is nothing to remark."""
    assert end_of_run(FOLDER, channels=webhook(server.url)) == []
    assert [message["event"] for message in server.messages] == ["opened", "ended"]


def test_the_start_says_where_incidents_are_sent(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    """Otherwise people learn only from the first message whether klarm.yaml was read."""
    off = {"type": "webhook", "url": server.url, "enabled": False}
    with klarm.init("a", channels={**webhook(server.url), "off": off}):
        assert "klarm: incidents are sent to hook\n" in capsys.readouterr().err
    with klarm.init("b"):
        assert "are sent" not in capsys.readouterr().err


def test_delivery_elsewhere_sends_nothing_and_says_what_does(server: Server) -> None:
    """The end of a run is no event that people are notified of."""
    said = end_of_run(FOLDER, deliver="elsewhere", channels=webhook(server.url))
    assert said == ["1 event pending: `klarm deliver klarm_runs/a` delivers it."]
    assert server.messages == []


def test_delivery_elsewhere_of_a_run_that_is_not_recorded_cannot_be() -> None:
    """It says so."""
    said = end_of_run(None, deliver="elsewhere", channels=webhook("http://127.0.0.1:9"))
    assert said == ["1 event cannot be delivered elsewhere: the run is not recorded."]


def test_what_was_not_delivered_is_said_at_the_end(server: Server) -> None:
    """With the command that sends it."""
    server.answers = [(503, {})] * 20
    *_, last = end_of_run(FOLDER, 0.4, channels=webhook(server.url))
    assert last == (
        "hook: some messages were not delivered yet. The next start of the run sends them, or: "
        "klarm deliver klarm_runs/a"
    )


def test_what_was_rejected_is_said_at_the_end(server: Server) -> None:
    """With the command that sends it again."""
    server.answers = [(404, {})] * 20
    *_, last = end_of_run(FOLDER, channels=webhook(server.url))
    assert last.startswith(
        "hook: some messages were not delivered. Once `klarm test-alert` succeeds"
    )
    assert last.endswith("klarm deliver klarm_runs/a --again")


def test_channels_that_are_off_are_no_routes() -> None:
    """As the configuration says."""
    settings = load(None, {"channels": {"hook": {"type": "webhook", "enabled": False}}})
    assert routes_of(settings) == []
