"""`klarm incidents` and `klarm replay` on a journal with damaged lines.

Covers replay.py too.
"""

from __future__ import annotations

import math
from pathlib import Path

from click.testing import CliRunner

import klarm
from klarm.cli.group import klarm as command

JOURNAL = Path("klarm_runs/a/journal.jsonl")


def damaged_run() -> None:
    """Record a run with an incident, then damage its first line and one step."""
    klarm.init("a", console=False)
    for step in range(60):
        klarm.log({"kl": 0.5 + 0.1 * (step % 2)}, step)
    klarm.log({"kl": math.nan}, 60)
    klarm.finish()
    content = JOURNAL.read_bytes().replace(b'"run":"a"', b'"run":"b"')
    JOURNAL.write_bytes(content.replace(b'"step":7,', b'"step":8,', 1) + b'{"type":"note"}\n')


def test_damaged_lines_are_named_and_the_rest_is_shown() -> None:
    """If the first line is damaged, the run has the name of its folder."""
    damaged_run()
    done = CliRunner().invoke(command, ["incidents", "a"])
    assert done.exit_code == 0, done.output
    assert "run a" in done.stdout
    assert "kl" in done.stdout
    assert f"{JOURNAL} line 1 is damaged and ignored" in done.stderr
    assert "is not written by klarm and ignored" in done.stderr
    assert done.stderr.count("ignored") == 3


def test_the_latest_run_is_the_latest_that_can_be_read() -> None:
    """An empty or unreadable journal is not taken for the latest run."""
    damaged_run()
    for name, content in (("empty", b""), ("garbage", b"nonsense\n")):
        folder = Path("klarm_runs") / name
        folder.mkdir()
        (folder / "journal.jsonl").write_bytes(content)
    for arguments in (["incidents"], ["ack", "1"], ["silence", "kl", "--for", "2h"]):
        done = CliRunner().invoke(command, arguments)
        assert done.exit_code == 0, done.output
    done = CliRunner().invoke(command, ["incidents", "garbage"])
    assert "does not begin like a journal" in done.output


def test_a_replay_names_damaged_lines() -> None:
    """It replays the other lines."""
    damaged_run()
    done = CliRunner().invoke(command, ["replay", str(JOURNAL.parent)])
    assert done.exit_code == 0, done.output
    assert "60 rows replayed: 1 incident, 1 critical" in done.stdout
    assert done.stderr.count("ignored") == 3
