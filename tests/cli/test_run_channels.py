"""The channels to notify of a recorded run; the commands are in test_delivery_commands.py."""

from __future__ import annotations

from pathlib import Path

import klarm
from klarm.cli.run_channels import channels_of
from klarm.config import load
from klarm.runs import read_run

HOOK = {"type": "webhook", "url": "http://127.0.0.1:9"}


def record_run() -> Path:
    klarm.init("a", console=False, channels={"hook": HOOK})
    klarm.log({"kl": 0.1})
    klarm.finish()
    return Path("klarm_runs/a")


def test_the_channels_are_those_of_the_journal() -> None:
    """The configuration here has none."""
    found = channels_of(read_run(record_run()), load())
    assert [route.channel.name for route in found.routes] == ["hook"]
    assert (found.names, found.problem) == (["hook"], "")


def test_a_journal_that_has_lost_its_first_line_says_that_channels_may_be_missing() -> None:
    """The channels of the configuration here are no substitute."""
    folder = record_run()
    journal = folder / "journal.jsonl"
    journal.write_bytes(b"x" + journal.read_bytes())
    found = channels_of(read_run(folder), load(None, {"channels": {"other": HOOK}}))
    assert found.routes == []
    assert found.problem == "the line of the journal with the channels is damaged"
