"""Every place names an incident alike, from its opening to its end."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from click.testing import CliRunner

import klarm
from klarm import Event
from klarm.api import current_monitor
from klarm.cli.group import klarm as command
from klarm.wording import event_text, short_title, title


@pytest.fixture
def events() -> list[Event]:
    """Record a learning rate that jumps, and a gradient norm that explodes 60 steps later."""
    found: list[Event] = []
    monitor = klarm.init("a", console=False)
    monitor.on_event.append(found.append)
    for step in range(330):
        rate = 1e-6 if step < 200 else 1e-4
        norm = 1.0 + 0.1 * (step % 3) + (100.0 if step >= 260 else 0.0)
        klarm.log({"learning_rate": rate, "grad_norm": norm, "kl": 0.02 + 0.001 * (step % 7)}, step)
    return [event for event in found if event.incident == 1]


def test_all_events_name_an_incident_by_the_metric_it_began_with(events: list[Event]) -> None:
    """Not by its signal, and not by a metric that joined later."""
    assert {"learning_rate", "grad_norm"} <= {event.metric for event in events}
    for event in events:
        assert title(event).startswith("learning_rate ")
        assert " on learning_rate (" in short_title(event)
        assert event_text(event).startswith("klarm INCIDENT 1 on learning_rate ")


def test_the_alert_that_opens_an_incident_at_once_names_it() -> None:
    """A gradient norm that is odd in the same row does not, whichever detector comes first."""
    found: list[Event] = []
    klarm.init("a", console=False).on_event.append(found.append)
    for step in range(201):
        rate, norm = (1e-6, 1.0 + 0.1 * (step % 3)) if step < 200 else (1e-4, 4.0)
        klarm.log({"learning_rate": rate, "grad_norm": norm}, step)
    (opened,) = found
    assert opened.message.startswith("The learning rate has jumped")
    assert title(opened).startswith("learning_rate warning, began at step 200 ")
    assert opened.metric == "learning_rate"


def test_all_commands_name_it_alike(events: list[Event]) -> None:
    """So does the notebook."""
    monitor = current_monitor()
    assert monitor is not None
    assert "klarm incident 1 on learning_rate" in monitor.incidents[0]._repr_html_()
    for words in ("incidents a", "show a", "show a 1", "runs", "close 1"):
        arguments = words.split()
        done = CliRunner().invoke(command, arguments, env={"COLUMNS": "200"})
        assert done.exit_code == 0, done.output
        assert "learning_rate" in done.output, arguments
        assert " gradient " not in done.output, arguments
    done = CliRunner().invoke(command, ["incidents", "a", "--format", "json"])
    assert json.loads(done.output)["incidents"][0]["subject"] == "learning_rate"


def test_the_name_of_an_incident_is_enough_to_silence_its_signal() -> None:
    """Also if no detector has it as its first metric."""
    klarm.init("a", console=False)
    for step in range(40):
        klarm.log({"critic_loss": 0.5 + 0.1 * (step % 2) if step < 39 else float("nan")}, step)
    klarm.finish()
    listed = CliRunner().invoke(command, ["incidents"], env={"COLUMNS": "200"})
    assert "critic_loss" in listed.output
    done = CliRunner().invoke(command, ["silence", "critic_loss", "--for", "2h"])
    assert done.exit_code == 0, done.output
    assert "loss is silenced" in done.output


def test_a_crash_is_called_a_crash() -> None:
    """Not by its signal, which nobody has heard of; also when the run has been resumed."""
    with suppress(ZeroDivisionError), klarm.init("a", console=False) as monitor:
        monitor.log({"kl": 0.02}, 7)
        raise ZeroDivisionError
    for words, shown in (("incidents a", " crash "), ("show a", "crashed after step 7")):
        done = CliRunner().invoke(command, words.split(), env={"COLUMNS": "200"})
        assert shown in done.output
    with klarm.init("a", console=False) as monitor:
        monitor.log({"kl": 0.02}, 8)
    done = CliRunner().invoke(command, ["show", "a"], env={"COLUMNS": "200"})
    assert "crash resolved (resumed), critical, steps 7 to 8" in done.output
