"""The one place that writes to a terminal: clean, and without waiting for a reader."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import textwrap

import pytest

from klarm.terminal import echo, echo_json, rich_console, styled, write_stderr

HOSTILE = "a\x1b[2J\x9b1m\r\x07\u202eb"
SPELT = r"a\x1b[2J\x9b1m\r\x07\u202eb"


def test_what_a_terminal_might_obey_is_spelt_out(capsys: pytest.CaptureFixture[str]) -> None:
    """On stderr of a run, and in what commands print."""
    assert write_stderr(HOSTILE)
    echo(HOSTILE)
    echo(HOSTILE, err=True)
    shown = capsys.readouterr()
    assert shown.out == f"{SPELT}\n"
    assert shown.err == f"{SPELT}\n" * 2


def test_our_own_colours_stay(capsys: pytest.CaptureFixture[str]) -> None:
    """Around a text that is clean."""
    assert styled(HOSTILE, fg="red") == f"\x1b[31m{SPELT}\x1b[0m"
    echo(styled(HOSTILE), HOSTILE)
    assert capsys.readouterr().out == f"{SPELT}{SPELT}\n"  # no terminal: no colours


def test_json_stays_json(capsys: pytest.CaptureFixture[str]) -> None:
    """What is unsafe is escaped as JSON does it; words in any script stay."""
    import json

    document = {"σ": HOSTILE, "half": "x\ud800", "tag": "\U000e0041"}
    echo_json(document)
    shown = capsys.readouterr().out
    assert json.loads(shown) == document
    assert shown.replace("\n", "").isprintable()
    assert "σ" in shown


def test_what_rich_lays_out_is_clean_too() -> None:
    """In a table, a panel, a plain text."""
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    table = Table()
    table.add_column(HOSTILE)
    table.add_row(Text(HOSTILE))
    console = rich_console()
    with console.capture() as captured:
        for shown in (table, Panel(Text(HOSTILE), title=Text(HOSTILE)), Text(HOSTILE)):
            console.print(shown)
    assert captured.get().replace("\n", "").isprintable()


@pytest.mark.parametrize(
    ("kind", "elsewhere"),
    # A socket can never be opened once more.
    [("pipe", False), ("pipe", True), ("terminal", False), ("terminal", True), ("socket", False)],
)
def test_nobody_who_reads_stderr_makes_a_run_wait(kind: str, elsewhere: bool) -> None:
    """However long the text; also where it cannot be opened once more, as by another user."""
    if kind == "pipe":
        read_end, write_end = os.pipe()
    elif kind == "terminal":
        read_end, write_end = os.openpty()
    else:
        import socket

        ends = socket.socketpair()
        read_end, write_end = (end.detach() for end in ends)
    code = f"""
        import os
        from klarm import terminal
        if {elsewhere}:
            terminal._opened_again = lambda file: None
        for _ in range(20):
            terminal.write_stderr("x" * 100_000)
        print("done")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        stdout=subprocess.PIPE,
        stderr=write_end,
        text=True,
        timeout=60,
        check=False,
    )
    os.close(read_end)
    os.close(write_end)
    assert (done.returncode, done.stdout) == (0, "done\n")


def test_other_writers_keep_their_way_of_writing() -> None:
    """Ours alone do not wait: the pipe itself stays as it was."""
    code = """
        import fcntl, os, sys
        from klarm.terminal import write_stderr
        assert write_stderr("hello")
        assert not fcntl.fcntl(2, fcntl.F_GETFL) & os.O_NONBLOCK
        assert len(os.listdir("/proc/self/fd")) < 10
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "hello\n")


def test_a_missing_or_broken_stderr_can_be_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing raises."""
    closed = io.StringIO()
    closed.close()
    for stderr in (None, closed):
        monkeypatch.setattr(sys, "stderr", stderr)
        assert not write_stderr("x")
