"""What a person sees, on a terminal and without one."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys

import msgspec
import pytest

import klarm
from klarm.console import Console
from klarm.types import Alert

ALERT = Alert("kl_explosion", "critical", 7, "KL 9 is 12σ above.", {"kl": 9.0}, "Stop the run.")


def test_without_a_terminal_an_alert_is_plain_text(capsys: pytest.CaptureFixture[str]) -> None:
    """On stderr; stdout belongs to the training script."""
    Console().alert(ALERT)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == (
        "klarm CRITICAL at step 7, kl_explosion: KL 9 is 12σ above.\n  -> Stop the run.\n"
    )


def test_what_to_do_is_not_said_again_at_every_step(capsys: pytest.CaptureFixture[str]) -> None:
    """An explosion lasts; its like within twenty steps is one line. Nothing is left out."""
    console = Console()
    for step in (7, 8, 9, 29, 50):
        console.alert(msgspec.structs.replace(ALERT, step=step))
    console.alert(msgspec.structs.replace(ALERT, step=51, severity="warning"))
    console.alert(msgspec.structs.replace(ALERT, step=3))  # after a rollback
    advised = "  -> Stop the run."
    assert [
        line.split()[4].rstrip(",") if "at step" in line else line
        for line in capsys.readouterr().err.splitlines()
    ] == [
        "7",
        advised,
        "8",
        "9",
        "29",
        "50",
        advised,
        "51",
        advised,
        "3",
        advised,
    ]


def test_steps_that_are_far_apart_are_counted_as_they_are_logged(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Some frameworks count timesteps, thousands an update."""
    with klarm.init("a", trust_region={"max_step_nats": 0.1}) as monitor:
        for row in range(10):
            monitor.log({"kl_old": 0.3}, step=2048 * row)
    shown = capsys.readouterr().err
    assert (shown.count("WARNING at step"), shown.count("CRITICAL at step")) == (2, 8)
    assert shown.count("  -> ") == 2


def test_on_a_terminal_an_alert_is_a_panel() -> None:
    """A real pseudo-terminal, read to its end."""
    code = (
        "import klarm; m = klarm.init('a');\n"
        "m.log({'kl': 0.1}); m.log({'kl': float('nan')}); klarm.finish()"
    )
    master, slave = pty.openpty()
    with subprocess.Popen([sys.executable, "-c", code], stderr=slave, stdout=slave) as process:
        os.close(slave)
        shown = b""
        while True:
            try:
                piece = os.read(master, 65536)
            except OSError:  # the terminal's other end is closed
                break
            if not piece:
                break
            shown += piece
    os.close(master)
    assert process.returncode == 0
    text = shown.decode()
    assert "╭─" in text
    assert "klarm critical: kl_explosion, step 1" in text
    assert "kl is NaN" in text


def test_a_console_switched_off_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """`console: false` in klarm.yaml."""
    console = Console(enabled=False)
    console.say("hello")
    console.alert(ALERT)
    assert capsys.readouterr().err == ""


def test_a_closed_stderr_disturbs_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor one that is missing, as under pythonw and some job runners."""
    closed = io.StringIO()
    closed.close()
    for stderr in (closed, None):
        monkeypatch.setattr(sys, "stderr", stderr)
        console = Console()
        console.say("hello")
        console.alert(ALERT)


def test_a_terminal_that_knows_no_sigma_gets_a_question_mark(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rather than an error in the middle of a run."""
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(raw, encoding="ascii"))
    Console().alert(ALERT)
    assert b"KL 9 is 12? above." in raw.getvalue()
