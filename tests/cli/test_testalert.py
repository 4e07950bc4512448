"""`klarm test-alert` sends a message that is marked as a test, and reports the outcome."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from loopback import Server

from klarm.cli.group import klarm as command


@pytest.fixture
def server(clean_place: None) -> Iterator[Server]:
    server = Server()
    Path("klarm.yaml").write_text(
        f"channels: {{hook: {{type: webhook, url: '{server.url}', severity: critical}}}}"
    )
    yield server
    server.close()


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, ["test-alert", *arguments])


def test_the_test_message_is_marked_and_ignores_the_filters_of_the_channel(server: Server) -> None:
    """A warning also reaches a channel that takes only critical incidents."""
    done = run()
    assert (done.exit_code, done.stdout) == (0, "hook: delivered\n")
    (message,) = server.messages
    assert message["test"] is True


def test_it_looks_like_a_real_alert_but_begins_by_saying_that_it_is_a_test(server: Server) -> None:
    """It has a curve, the start, the probable cause and the advice."""
    run()
    (message,) = server.messages
    assert message["title"].startswith("Test: example: ")
    assert message["summary"].startswith("Sent by `klarm test-alert`: no run is in trouble")
    assert {"Since", "Likely cause", "To do", "Peak", "Also moved"} <= message["fields"].keys()
    assert "kl ▁" in message["body"]


def test_its_dates_agree_with_its_curve(server: Server) -> None:
    """KL leaves its level at step 60, so an incident that begins at step 66 would look wrong."""
    run()
    (message,) = server.messages
    assert message["started"] in (60, 61)
    peak = message["fields"]["Peak"].removeprefix("kl ")
    assert f"0.02 → {peak}, steps 0 to {message['step']}" in message["body"]


def test_a_failure_is_reported_and_sets_the_exit_code(server: Server) -> None:
    """It is not retried."""
    server.answers = [(503, {})]
    done = run("hook")
    assert done.exit_code == 1
    assert done.stdout.startswith("hook: not delivered: ")
    assert len(server.messages) == 1


@pytest.mark.usefixtures("server")
def test_the_error_for_a_misspelt_channel_suggests_the_nearest() -> None:
    """Nothing is sent."""
    done = run("hok")
    assert done.exit_code == 2
    assert "there is no channel hok; did you mean hook?" in done.output
