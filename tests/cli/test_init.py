"""`klarm init`: a file with every setting, and never one in place of another."""

from __future__ import annotations

from pathlib import Path

import yaml
from click.testing import CliRunner

from klarm.cli.group import klarm as command
from klarm.config import SECTIONS, TOP_LEVEL, load


def test_the_file_holds_every_setting_and_changes_none() -> None:
    """It is read back as the defaults."""
    before = load(None).as_dict()
    done = CliRunner().invoke(command, ["init"])
    assert (done.exit_code, done.output) == (
        0,
        "wrote klarm.yaml: every setting with its default\n",
    )
    written = yaml.safe_load(Path("klarm.yaml").read_text())
    assert list(written) == [*TOP_LEVEL, *SECTIONS]
    assert load(None).as_dict() == before


def test_a_file_that_is_there_stays_as_it_is() -> None:
    """Under any name."""
    Path("mine.yaml").write_text("run: a\n")
    done = CliRunner().invoke(command, ["init", "mine.yaml"])
    assert done.exit_code == 1
    assert "mine.yaml is there already and stays as it is" in done.output
    assert Path("mine.yaml").read_text() == "run: a\n"


def test_a_place_that_cannot_be_written_is_said() -> None:
    """With the reason."""
    done = CliRunner().invoke(command, ["init", "missing/klarm.yaml"])
    assert done.exit_code == 1
    assert "cannot write missing/klarm.yaml: No such file or directory" in done.output
