"""`klarm silence`: how a duration is read, and what is written for the run."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from click.testing import CliRunner

import klarm
from klarm.cli.group import klarm as command
from klarm.delivery import parse_span
from klarm.journal import read_commands

pytestmark = pytest.mark.usefixtures("one_detector")


@pytest.mark.parametrize(
    ("span", "until"),
    [
        ("200steps", (250, None)),
        ("1 step", (51, None)),
        ("30min", (None, 1000.0 + 1800)),
        ("5m", (None, 1000.0 + 300)),
        ("2h", (None, 1000.0 + 7200)),
        (" 1d ", (None, 1000.0 + 86400)),
        ("45s", (None, 1000.0 + 45)),
        ("90 sec", (None, 1000.0 + 90)),
        ("2w", (None, 1000.0 + 14 * 86400)),
    ],
)
def test_a_duration_is_a_number_of_steps_or_a_time(
    span: str, until: tuple[int | None, float | None]
) -> None:
    """It counts from the current step, or from now."""
    assert parse_span(span, 50, 1000.0) == until


@pytest.mark.parametrize("span", ["", "2", "0h", "-1h", "2 weeks", "1e3steps"])
def test_an_invalid_duration_is_refused(span: str) -> None:
    """The message has examples."""
    with pytest.raises(ValueError, match="try 200steps, 30min, 2h or 1d"):
        parse_span(span, 50, 1000.0)


@pytest.mark.parametrize(
    ("name", "signal"),
    [
        ("kl_runaway", "kl"),
        ("kl_old", "kl"),
        ("grad_norm", "gradient"),
        ("metric_lost", "liveness"),
    ],
)
def test_a_detector_or_a_metric_stands_for_its_signal(name: str, signal: str) -> None:
    """People read these names in messages."""
    klarm.init("a", console=False).log({"kl": math.nan}, 3)
    klarm.finish()
    done = CliRunner().invoke(command, ["silence", name, "--for", "10steps"])
    assert done.exit_code == 0, done.output
    assert [given.signal for _, given in read_commands(Path("klarm_runs/a"))] == [signal]


def test_a_silence_and_its_end_are_written_for_the_run() -> None:
    """They have the name of the user."""
    klarm.init("a", console=False).log({"kl": math.nan}, 3)
    klarm.finish()
    for arguments in (["--for", "10steps", "--by", "ada"], ["--off", "--by", "bob"]):
        done = CliRunner().invoke(command, ["silence", "kl", *arguments])
        assert done.exit_code == 0, done.output
    found = [command for _, command in read_commands(Path("klarm_runs/a"))]
    assert [(one.command, one.signal, one.by, one.until_step) for one in found] == [
        ("silence", "kl", "ada", 13),
        ("silence_off", "kl", "bob", None),
    ]


def test_the_error_for_an_unknown_signal_suggests_the_nearest() -> None:
    """Names are those of signals, detectors and metrics."""
    klarm.init("a", console=False).log({"kl": 0.1}, 3)
    klarm.finish()
    done = CliRunner().invoke(command, ["silence", "rewrad", "--for", "2h"])
    assert done.exit_code == 2
    assert "there is no signal rewrad; did you mean reward?" in done.output


def test_naming_a_metric_says_what_else_is_silenced() -> None:
    """A silence is for all of a signal."""
    klarm.init("a", console=False).log({"kl": math.nan}, 3)
    klarm.finish()
    done = CliRunner().invoke(command, ["silence", "learning_rate", "--for", "10steps"])
    said, then = done.output.splitlines()
    assert said == "learning_rate belongs to gradient: all of gradient is silenced"
    assert then.startswith("run a: gradient is silenced until step 13;")
    done = CliRunner().invoke(command, ["silence", "kl", "--for", "10steps"])
    assert "belongs" not in done.output


def test_a_signal_in_capitals_is_suggested() -> None:
    """People write KL."""
    klarm.init("a", console=False).log({"kl": 0.1}, 3)
    klarm.finish()
    done = CliRunner().invoke(command, ["silence", "KL", "--for", "2h"])
    assert "there is no signal KL; did you mean kl?" in done.output
