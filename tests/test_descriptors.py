"""Files that klarm writes to, where others have put something in their place."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import klarm
from klarm.descriptors import open_own
from klarm.journal import append_lines

JOURNAL = Path("klarm_runs/a/journal.jsonl")
WRITE = os.O_WRONLY | os.O_CREAT | os.O_APPEND


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_link_in_place_of_the_journal_is_refused_and_the_run_is_watched(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What it leads to stays as it is."""
    precious = Path("precious")
    precious.write_text("mine")
    JOURNAL.parent.mkdir(parents=True)
    JOURNAL.symlink_to(precious.absolute())
    klarm.init("a")
    assert klarm.log({"loss": math.nan})
    klarm.finish()
    assert precious.read_text() == "mine"
    assert "(it is a symbolic link, which klarm does not follow): the run is watched but" in (
        capsys.readouterr().err
    )


def test_a_link_in_place_of_a_folder_is_followed() -> None:
    """People keep runs on a scratch disk."""
    Path("scratch").mkdir()
    Path("klarm_runs").symlink_to("scratch")
    klarm.init("a", console=False)
    klarm.finish()
    assert Path("scratch/a/journal.jsonl").is_file()


def test_a_pipe_in_place_of_the_journal_holds_nothing() -> None:
    """Nobody reads it, or somebody does; the run is watched, and not recorded."""
    JOURNAL.parent.mkdir(parents=True)
    os.mkfifo(JOURNAL)
    code = """
        import os, klarm
        for reader in (None, os.open("klarm_runs/a/journal.jsonl", os.O_RDONLY | os.O_NONBLOCK)):
            klarm.init("a")
            print(klarm.log({"loss": float("nan")})[0].severity)
            klarm.finish()
    """
    done = run_python(code)
    assert (done.returncode, done.stdout) == (0, "critical\ncritical\n")
    assert done.stderr.count("(it is not a regular file): the run is watched but not recorded") == 2


@pytest.mark.parametrize("name", ["deliveries.jsonl", "commands.jsonl"])
def test_the_files_beside_it_are_opened_the_same_way(name: str) -> None:
    """A link and a pipe are refused."""
    Path("precious").write_text("mine")
    Path(name).symlink_to("precious")
    with pytest.raises(OSError, match="symbolic link"):
        append_lines(Path(name), b"x\n")
    Path(name).unlink()
    os.mkfifo(name)
    with pytest.raises(OSError, match="not a regular file"):
        append_lines(Path(name), b"x\n")
    assert Path("precious").read_text() == "mine"


def test_a_closed_stderr_does_not_become_the_journal() -> None:
    """Nor stdout, nor stdin: whatever is printed there stays out of it."""
    done = run_python("""
        import os, sys, klarm
        for file in (0, 1, 2):
            os.close(file)
        klarm.init("a")
        for step in range(3):
            klarm.log({"kl": 0.1}, step)
            try:
                os.write(2, b"not for the journal\\n")
            except OSError:
                pass
        klarm.finish()
        os._exit(0)
    """)
    assert done.returncode == 0
    kinds = [json.loads(line)["type"] for line in JOURNAL.read_text().splitlines()]
    assert kinds == ["run", "step", "step", "step", "finish"]


def test_no_connection_becomes_stderr() -> None:
    """A token might be answered with what a library prints."""
    done = run_python("""
        import os, socket, sys, time
        from klarm.channels.sockets import connector
        server = socket.create_server(("127.0.0.1", 0))
        os.close(0)
        connection = connector(time.monotonic() + 60)(server.getsockname()[:2])
        print(connection.fileno() > 2)
        connection.send(b"x")
        print(server.accept()[0].recv(1))
    """)
    assert done.stdout == "True\nb'x'\n"


def test_who_may_read_a_file_is_the_umasks_business() -> None:
    """A group that delivers for others must be able to write deliveries."""
    before = os.umask(0o002)
    try:
        os.close(open_own("shared", WRITE))
    finally:
        os.umask(before)
    assert Path("shared").stat().st_mode & 0o777 == 0o664
