"""What a person sees, on a terminal and without one."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import termios
from pathlib import Path

import msgspec
import pytest

import klarm
from cli.commands import run_klarm, run_on_terminal
from example_events import example_event
from klarm.cli.demo import read_recording
from klarm.console import Console
from klarm.types import Moved
from klarm.wording import event_text
from made_alerts import made_alert

ALERT = made_alert({"kl": 9.0}, step=7, case="unknown_before")
OPENED = example_event(
    step=9,
    started=7,
    reason="decisive",
    message="KL 9 is 12σ above.",
    recommendation="Stop the run.",
    also=(
        Moved("loss", "up", step=6, ratio=4.0),
        Moved("entropy", "down", step=8, ratio=0.5),
    ),
    pattern="loss bursts first",
    cause="ratios that are not clamped",
    remedy="Clamp them.",
)


def test_an_incident_that_opens_is_shown_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a terminal as plain lines, on stderr: stdout belongs to the training script."""
    Console().event(OPENED)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == f"{event_text(OPENED)}\n"


def test_what_becomes_of_it_is_a_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    """Also on a terminal; what a run leaves open is in its summary, and not repeated here."""
    console = Console()
    for kind, reason in (("settled", "settled"), ("reopened", "returned"), ("ended", "finished")):
        console.event(msgspec.structs.replace(OPENED, event=kind, reason=reason))
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(" at step ")[0] for line in lines] == [
        "klarm INCIDENT 1 on kl settled",
        "klarm INCIDENT 1 on kl open again",
    ]


def test_single_alerts_are_shown_only_if_they_are_wanted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each in a line, without what to do; `log` returns them anyway."""
    line = "klarm WARNING at step 4096, trust_region: "
    for wanted in (False, True):
        with klarm.init("a", dir=str(wanted), console_alerts=wanted) as monitor:
            alerts = [monitor.log({"kl_old": kl}, 2048 * i) for i, kl in enumerate([0, 0, 0.9, 0])]
        assert [len(said) for said in alerts] == [0, 0, 1, 0]
        shown = capsys.readouterr().err
        assert shown.count(line) == shown.count("at step 4096") == wanted
        assert "->" not in shown


def test_a_healthy_run_with_noise_shows_no_alarm(capsys: pytest.CaptureFixture[str]) -> None:
    """Its alerts are in the journal."""
    with klarm.init("a") as monitor:
        returned = [monitor.log(row, step=row["step"]) for row in read_recording("healthy")]
    assert sum(map(len, returned)) > 10
    shown = capsys.readouterr().err
    assert shown.endswith("run a ended after 300 rows: no incident\n")
    assert "CRITICAL" not in shown
    assert "INCIDENT" not in shown


def test_on_a_terminal_an_incident_is_a_panel() -> None:
    """A real pseudo-terminal, read to its end."""
    code = (
        "import klarm; m = klarm.init('a');\n"
        "m.log({'kl': 0.1}); m.log({'kl': float('nan')}); klarm.finish()"
    )
    text = shown_on_a_terminal(code)
    assert "╭─" in text
    assert "klarm incident 1 on kl opened, critical, step 1" in text
    assert "kl is NaN" in text


@pytest.mark.parametrize("known_by", ["COLUMNS", "the terminal"])
def test_on_a_terminal_lines_break_between_words(known_by: str) -> None:
    """A terminal of 80 columns would break them within the names of metrics."""
    code = (
        "import klarm; m = klarm.init('a')\n"
        "row = {'reward_std': 1, 'entropy': 2, 'grad_norm': 1, 'kl_rollout': 0.1, 'loss': 1}\n"
        "for step in range(40): m.log({'kl': 0.02 + 0.001 * (step % 3), **row})\n"
        "m.log({'kl': 0.9, **row}); klarm.finish()"
    )
    text = shown_on_a_terminal(code, 80, set_variable=known_by == "COLUMNS")
    plain = re.sub(r"\x1b\[[0-9;]*[mK]", "", text).replace("\r", "")
    assert max(map(len, plain.splitlines())) <= 80
    shutil.rmtree("klarm_runs")
    piped = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert max(map(len, piped.stderr.splitlines())) > 80
    assert plain.split() == piped.stderr.split()


def test_replay_breaks_lines_between_words_on_a_terminal() -> None:
    """As the monitor itself does. In a pipe each sentence stays on one line."""
    rows = [0.02 + 0.001 * (step % 3) for step in range(60)] + [0.5, 0.9, 1.5, 2.5, 4.0, 7.0, 9.0]
    Path("log.jsonl").write_text("".join(f'{{"kl": {kl}}}\n' for kl in rows))
    code, shown = run_on_terminal("replay", "log.jsonl", columns=60)
    assert code == 0
    plain = re.sub(r"\x1b\[[0-9;]*[mK]", "", shown).replace("\r", "")
    assert max(map(len, plain.splitlines())) <= 60
    piped = run_klarm("replay", "log.jsonl")
    assert max(map(len, piped.stdout.splitlines())) > 60
    assert " ".join(piped.stdout.split()) in " ".join(plain.split())


@pytest.mark.parametrize("word", ["实验名称", "🚀🚀🚀🚀", "e\u0301" * 8, "word.of8"])
def test_lines_are_broken_by_the_columns_that_they_take(word: str) -> None:
    """Not by their characters: names of runs are in any script. Each word takes eight columns."""
    text = f"  {' '.join([word] * 9)}"
    code = f"from klarm.terminal import write_stderr; write_stderr({text!r})"
    shown = shown_on_a_terminal(code, 38)
    lines = re.sub(r"\x1b\[[0-9;]*[mK]", "", shown).replace("\r", "").splitlines()
    assert [line.count(word) for line in lines] == [4, 4, 1]
    assert all(line.startswith(f"  {word}") for line in lines)


def shown_on_a_terminal(code: str, columns: int = 200, *, set_variable: bool = True) -> str:
    """Run Python code on a pseudo-terminal; return what it shows there."""
    master, slave = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(columns)}
    if not set_variable:
        del environment["COLUMNS"]
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stderr=slave, stdout=slave, env=environment) as process:
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
    return shown.decode()


def test_random_numbers_are_those_of_a_run_without_klarm() -> None:
    """Seeded training is the same with a terminal, an incident and a channel that fails."""
    code = (
        "import random, klarm; random.seed(3); state = random.getstate(); "
        "hook = {'type': 'webhook', 'url': 'http://127.0.0.1:9/'}; "
        "klarm.init('a', channels={'hook': hook}); "
        "[klarm.log({'kl': 0.02 if step < 40 else float('nan')}, step) for step in range(60)]; "
        "klarm.finish(1.0); print('same' if random.getstate() == state else 'drawn')"
    )
    shown = shown_on_a_terminal(code)
    assert "klarm incident 1 on kl opened" in shown
    assert "hook: delivery failed" in shown
    assert shown.rstrip().endswith("same")


def test_on_a_terminal_an_alert_that_is_not_confirmed_is_dim() -> None:
    """In the terminal's own dim style, and nothing of an incident beside it."""
    code = (
        "import klarm; m = klarm.init('a')\n"
        "for step in range(40): m.log({'kl': 0.02 + 0.001 * (step % 3)})\n"
        "m.log({'kl': 0.9}); klarm.finish()"
    )
    text = shown_on_a_terminal(code)
    dim, line = "\x1b[2m", "klarm: step 40, kl_explosion critical, not confirmed yet: KL 0.9"
    assert dim + line in text
    assert "╭─" not in text


def test_a_console_switched_off_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """`console: false` in klarm.yaml."""
    console = Console(enabled=False, alerts=True)
    console.say("hello")
    console.alert(ALERT)
    console.event(OPENED)
    assert capsys.readouterr().err == ""


def test_a_closed_stderr_disturbs_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor one that is missing, as under pythonw and some job runners."""
    closed = io.StringIO()
    closed.close()
    for stderr in (closed, None):
        monkeypatch.setattr(sys, "stderr", stderr)
        console = Console(alerts=True)
        console.say("hello")
        console.alert(ALERT)
        console.event(OPENED)


def test_a_terminal_that_knows_no_sigma_gets_a_question_mark(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rather than an error in the middle of a run."""
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(raw, encoding="ascii"))
    Console().event(OPENED)
    assert b"KL 9 is 12? above." in raw.getvalue()
