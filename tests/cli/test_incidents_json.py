"""`klarm incidents --format json`: incidents and channels for programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from loopback import Server

import klarm
from cli.commands import run_klarm

pytestmark = pytest.mark.usefixtures("one_detector")


def record_run() -> None:
    channels = {
        name: {"type": "webhook", "url": "http://127.0.0.1:9"} for name in ("one", "two", "three")
    }
    klarm.init("a", console=False, channels=channels, deliver="elsewhere")
    klarm.log({"kl": float("nan")}, 10)
    klarm.finish()


def test_json_has_the_state_of_every_channel(server: Server) -> None:
    """It has the last delivery, and what is pending, rejected (with the reason) and dropped."""
    record_run()
    run_klarm("deliver", "klarm_runs", channels=f"one={server.url}")
    server.answers = [(404, {})]
    run_klarm("deliver", "klarm_runs", channels=f"two={server.url}")
    with Path("klarm_runs/a/deliveries.jsonl").open("a") as file:
        file.write("what nobody wrote\n")
    shown = json.loads(run_klarm("incidents", "--format", "json").stdout)
    health = {known.pop("channel"): known for known in shown["channels"]}
    taken = {name: (h["pending"], h["rejected"], h["held_back"]) for name, h in health.items()}
    assert taken == {"one": (0, 0, 0), "two": (0, 1, 0), "three": (1, 0, 0)}
    assert health["one"]["last_sent"] > 1e9
    assert health["two"]["last_sent"] is None
    assert "404" in health["two"]["reason"]
    (incident,) = shown["incidents"]
    assert incident["notified"]["one"]["outcome"] == "sent"
    assert incident["notified"]["two"]["outcome"] == "rejected"
    assert incident["notified"]["three"]["rest"] == "pending"
    assert (shown["run"], shown["live"], shown["finished"]) == ("a", False, True)
    (dropped,) = shown["dropped"]
    assert dropped.startswith("deliveries.jsonl is damaged")


def test_json_of_a_run_without_incidents() -> None:
    """Having no channel is not an error."""
    klarm.init("a", console=False)
    klarm.log({"kl": 0.1})
    shown = json.loads(run_klarm("incidents", "a", "--format", "json").stdout)
    assert (shown["incidents"], shown["channels"], shown["live"]) == ([], [], True)
