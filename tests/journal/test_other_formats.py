"""Journals of other formats: refused with one clear line, and never appended to."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

import klarm
from klarm.cli.group import klarm as command
from klarm.journal import FORMAT, FileJournal, Fold, FormatError, head_of, is_journal, read_journal
from klarm.journal.checksum import sealed
from klarm.settings import ConfigError

HEAD = b'{"type":"run","run":"a","started":1.5,"klarm":"0.1.0","host":"node","config":{}%b}'
STEP = b'{"type":"step","step":3,"time":1.5,"metrics":{"kl":0.5}}'
OLDEST = HEAD % b"" + b"\n" + STEP + b"\n"
OTHERS = {
    "an unknown format": OLDEST,
    "format 2": sealed(HEAD % b',"format":2') + sealed(STEP),
    "format 4": sealed(HEAD % b',"format":4') + sealed(STEP),
}
FOLDER = Path("klarm_runs/a")
JOURNAL = FOLDER / "journal.jsonl"


@pytest.fixture(params=list(OTHERS))
def other(request: pytest.FixtureRequest) -> str:
    """Put a journal of another format in place; return what its format is called."""
    FOLDER.mkdir(parents=True)
    JOURNAL.write_bytes(OTHERS[request.param])
    return str(request.param)


def test_no_reader_takes_it_for_its_own(other: str) -> None:
    """It is recognised as a journal, and refused by number."""
    assert is_journal(JOURNAL)
    readers: list[Callable[[], object]] = [
        lambda: head_of(JOURNAL),
        lambda: list(read_journal(JOURNAL)),
        lambda: Fold(JOURNAL).update(),
        lambda: FileJournal(FOLDER, print),
    ]
    for read in readers:
        with pytest.raises(FormatError) as error:
            read()
        assert error.value.strerror == (
            f"the journal has {other}, and this version of klarm has format {FORMAT} only"
        )


def test_a_run_of_its_name_does_not_start(other: str) -> None:
    """The script ends before training does, and the file is as it was."""
    with pytest.raises(ConfigError, match="Give the run another name"):
        klarm.init("a", console=False)
    assert JOURNAL.read_bytes() == OTHERS[other]
    klarm.init("b", console=False).log({"kl": 0.1})


@pytest.mark.parametrize(
    "arguments",
    [
        "show a",
        "incidents a",
        "replay klarm_runs/a",
        "ack 1",
        "close 1",
        "deliver klarm_runs",
    ],
)
def test_a_command_refuses_it_in_one_line(other: str, arguments: str) -> None:
    """No command fails with a traceback, or shows an empty run."""
    Path("klarm.yaml").write_text("channels: {hook: {type: webhook, url: http://127.0.0.1:9}}")
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        done = CliRunner().invoke(command, arguments.split())
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    output = done.output + said.getvalue()
    assert f"the journal has {other}" in " ".join(output.split()), output


def test_a_list_of_runs_shows_the_others(other: str) -> None:
    """One folder that cannot be read hides no other."""
    klarm.init("b", console=False).log({"kl": 0.1})
    klarm.finish()
    done = CliRunner().invoke(command, ["runs"])
    assert done.exit_code == 0
    assert [line.split()[0] for line in done.output.splitlines()[1:]].count("b") == 1
    assert "unreadable" in done.output
