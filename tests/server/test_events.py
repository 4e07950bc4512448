"""Live: a line in a journal is an event in the stream; events.py and changes.py."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from serving_runs import RUNS, served, write_steps

import klarm
from klarm.server.changes import Round, RunChange
from klarm.server.events import merged


def next_change(stream: Iterator[tuple[str, Any]], what: str) -> Any:
    """Return the next change of a run of this sort."""
    for kind, data in stream:
        if kind == "changes":
            for change in data["runs"]:
                if what in change["what"]:
                    return change
    raise AssertionError("the stream has ended")


def test_a_run_that_explodes_is_reported_while_it_trains() -> None:
    """First the run, then its steps, then its incident."""
    with served() as client, client.events() as stream:
        kind, hello = next(stream)
        assert kind == "hello"
        assert hello["cursor"] == client.get("/runs")["cursor"]
        monitor = klarm.init("live", dir=str(RUNS), console=False)
        for step in range(1, 31):
            monitor.log({"kl": 0.01}, step=step)
        added = next_change(stream, "added")
        assert added["run"] == "live"
        monitor.log({"kl": float("nan")}, step=31)
        opened = next_change(stream, "incidents")
        assert (opened["health"], opened["activity"]) == ("critical", "training")
        assert opened["latest"]["kl"] == "NaN"
        klarm.finish()
        ended = next_change(stream, "activity")
        assert ended["activity"] == "finished"


def test_a_cursor_takes_up_where_it_was() -> None:
    """Changes in between are sent, and none twice."""
    write_steps("a", {1: {"kl": 0.1}})
    write_steps("b", {1: {"kl": 0.1}})
    with served() as client:
        cursor = client.get("/runs")["cursor"]
        with client.events() as stream:
            next(stream)
            write_steps("a", {2: {"kl": 0.2}})
            assert next_change(stream, "steps")["last_step"] == 2
            write_steps("b", {2: {"kl": 0.2}, 3: {"kl": 0.3}})
            assert next_change(stream, "steps")["run"] == "b"
        with client.events(f"?cursor={cursor}") as stream:
            assert next(stream)[0] == "hello"
            kind, data = next(stream)
            assert kind == "changes"
            assert {change["run"] for change in data["runs"]} == {"a", "b"}
            assert data["cursor"] == client.get("/runs")["cursor"]
        with client.events(f"?cursor={cursor}&run=b") as stream:
            next(stream)
            assert [change["run"] for change in next(stream)[1]["runs"]] == ["b"]


def test_a_cursor_of_another_server_is_reset() -> None:
    """By the parameter, or by what EventSource sends after a break."""
    write_steps("a", {1: {"kl": 0.1}})
    with served() as client:
        with client.events("?cursor=12") as stream:
            assert [next(stream)[0], next(stream)[0]] == ["hello", "reset"]
        with client.events(Last_Event_ID="12") as stream:
            assert [next(stream)[0], next(stream)[0]] == ["hello", "reset"]
        assert client.ask("/api/v1/events?cursor=x").status == 400


def test_changes_of_one_run_are_reported_as_one() -> None:
    """With everything that has changed on the way."""
    first = RunChange("a", ["added", "steps"], first_changed_step=1, last_step=3)
    second = RunChange("a", ["incidents"], last_step=4, health="warning")
    (found,) = merged([Round(1, [first]), Round(2, [second])])
    assert found.what == ["added", "incidents", "steps"]
    assert (found.first_changed_step, found.last_step, found.health) == (1, 4, "warning")
