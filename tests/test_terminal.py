"""The one place that writes to a terminal: clean, and without waiting for a reader."""

from __future__ import annotations

import io
import sys

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


def test_a_missing_or_broken_stderr_can_be_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing raises."""
    closed = io.StringIO()
    closed.close()
    for stderr in (None, closed):
        monkeypatch.setattr(sys, "stderr", stderr)
        assert not write_stderr("x")
