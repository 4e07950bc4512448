"""Whoever can read a run's files cannot keep it from being recorded and delivered.

Another user is played by a process that gives up being root, so most of this needs root.
"""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from loopback import Server

import klarm
from klarm.journal.file import read_journal

FOLDER = Path("klarm_runs/a")
NOBODY = 65534
needs_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0,
    reason="another user can only be played by a process that was root",
)
# fcntl first: the other user may not be able to read what is installed.
LET_GO_OF_ROOT = f"import fcntl, os; os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})\n"
HOLDER = """
import fcntl, os, sys
held = [os.open(path, os.O_RDONLY) for path in sys.argv[1:]]
[fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB) for file in held]
print("held", flush=True)
sys.stdin.read()
"""
# A critical incident, sent to a webhook; what klarm says comes on stderr.
RUN = """
import sys, klarm
monitor = klarm.init("a", channels={"ops": {"type": "webhook", "url": sys.argv[1]}})
for step in range(20):
    monitor.log({"kl": 0.1 + step % 3 / 100}, step)
monitor.log({"kl": float("nan")}, 20)
klarm.finish(timeout=20)
"""


@pytest.fixture(autouse=True)
def shared_place(clean_place: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An ordinary umask, and a folder that others can reach: that of pytest is closed to them."""
    before = os.umask(0o022)
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        monkeypatch.chdir(place)
        yield
        klarm.finish()
    os.umask(before)


@contextmanager
def held(*paths: Path, as_nobody: bool = True) -> Iterator[None]:
    """Have another process hold locks on files, by default one of another user."""
    holder = subprocess.Popen(
        [sys.executable, "-c", LET_GO_OF_ROOT * as_nobody + HOLDER, *map(str, paths)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        yield
        holder.kill()


def run_python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def recorded() -> list[str]:
    return [type(record).__name__ for record in read_journal(FOLDER / "journal.jsonl")]


def test_locks_are_files_of_their_own_that_only_we_can_open(server: Server) -> None:
    """Data files follow the umask: a colleague may read them."""
    assert run_python(RUN, server.url).returncode == 0
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in FOLDER.iterdir()}
    assert modes["journal.lock"] == modes["delivery.lock"] == 0o600
    assert modes["journal.jsonl"] == modes["deliveries.jsonl"] == 0o644


def test_an_umask_that_lets_the_group_write_counts_for_data_files(server: Server) -> None:
    """A colleague on a login node may deliver, where the folder is the group's."""
    os.umask(0o002)
    assert run_python(RUN, server.url).returncode == 0
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in FOLDER.iterdir()}
    assert modes["journal.jsonl"] == modes["deliveries.jsonl"] == 0o664
    assert modes["journal.lock"] == modes["delivery.lock"] == 0o600


@needs_root
def test_a_reader_that_locks_every_file_it_can_read_holds_nothing_up(
    server: Server,
) -> None:
    """The run is recorded and delivered as if nobody held anything."""
    assert run_python(RUN, server.url).returncode == 0
    server.messages.clear()
    readable = [path for path in FOLDER.iterdir() if path.stat().st_mode & stat.S_IROTH]
    assert FOLDER / "journal.jsonl" in readable
    assert FOLDER / "deliveries.jsonl" in readable
    before = recorded().count("Step")
    with held(*readable):
        done = run_python(RUN, server.url)
    assert done.returncode == 0
    assert "another" not in done.stderr
    assert recorded().count("Step") == before + 21
    assert any(message["severity"] == "critical" for message in server.messages)


@needs_root
def test_a_lock_file_of_klarm_0_1_that_another_user_holds_is_said_and_passed_over(
    server: Server,
) -> None:
    """It was readable to all. Whoever holds it, people are notified."""
    FOLDER.mkdir(parents=True)
    (FOLDER / "delivery.lock").touch(mode=0o644)
    with held(FOLDER / "delivery.lock"):
        done = run_python(RUN, server.url)
    assert done.stderr.count("delivery.lock was open to other users") == 1
    assert [message["severity"] for message in server.messages][:1] == ["critical"]


@needs_root
@pytest.mark.parametrize("name", ["journal.lock", "delivery.lock"])
def test_a_lock_file_that_is_not_ours_is_said_and_passed_over(server: Server, name: str) -> None:
    """Somebody who may write to the folder has put it there, and holds it."""
    FOLDER.mkdir(parents=True)
    (FOLDER / name).touch(mode=0o644)
    os.chown(FOLDER / name, NOBODY, NOBODY)
    with held(FOLDER / name):
        done = run_python(RUN, server.url)
    assert done.stderr.count(f"{name} belongs to another user") == 1
    assert recorded().count("Step") == 21
    assert [message["severity"] for message in server.messages][:1] == ["critical"]


@needs_root
def test_a_lock_file_that_we_may_not_open_is_said_and_passed_over(server: Server) -> None:
    """A colleague took the run up before; the folder is the group's."""
    FOLDER.mkdir(parents=True)
    FOLDER.chmod(0o777)
    for name in ("journal.lock", "delivery.lock"):
        (FOLDER / name).touch(mode=0o600)
    warm = "import klarm, klarm.delivery.dispatcher, klarm.channels.webhook, rich.panel\n"
    # Imports first: the other user may not be able to read what is installed.
    load = "klarm.init('warm', console=False); klarm.log({'kl': float('nan')}); klarm.finish()\n"
    done = run_python(warm + load + LET_GO_OF_ROOT + RUN, server.url)
    assert done.returncode == 0, done.stderr
    for name in ("journal.lock", "delivery.lock"):
        assert done.stderr.count(f"{name} cannot be opened (Permission denied)") == 1
    assert recorded().count("Step") == 21
    assert [message["severity"] for message in server.messages][:1] == ["critical"]


def test_a_link_in_place_of_a_lock_file_is_not_followed(server: Server) -> None:
    """What it points to stays as it is."""
    FOLDER.mkdir(parents=True)
    Path("mine").write_text("a file of the user's own")
    Path("mine").chmod(0o644)
    (FOLDER / "journal.lock").symlink_to(Path("mine").absolute())
    done = run_python(RUN, server.url)
    assert done.stderr.count("journal.lock cannot be opened") == 1
    assert stat.S_IMODE(Path("mine").stat().st_mode) == 0o644
    assert recorded().count("Step") == 21


def test_a_process_of_our_own_that_delivers_is_waited_for_and_that_is_said(
    server: Server,
) -> None:
    """A `klarm deliver` that hangs must not silence a run without a word."""
    FOLDER.mkdir(parents=True)
    (FOLDER / "delivery.lock").touch(mode=0o600)
    with held(FOLDER / "delivery.lock", as_nobody=False):
        done = run_python(RUN.replace("timeout=20", "timeout=1"), server.url)
    assert done.stderr.count("another process delivers this run") == 1
    assert server.messages == []


@needs_root
def test_root_sees_the_lock_of_the_runs_owner() -> None:
    """As a cron job of root's does: one records, the other says so."""
    FOLDER.mkdir(parents=True)
    for path in (FOLDER, FOLDER / "journal.lock"):
        path.touch(mode=0o600)
        os.chown(path, NOBODY, NOBODY)
    FOLDER.chmod(0o755)
    (FOLDER / "journal.lock").chmod(0o600)
    holder = HOLDER.replace("O_RDONLY", "O_RDWR")
    with subprocess.Popen(
        [sys.executable, "-c", LET_GO_OF_ROOT + holder, str(FOLDER / "journal.lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        done = run_python("import klarm; klarm.init('a'); klarm.log({'kl': 1.0})")
        process.kill()
    assert "another live process records run a" in done.stderr


@needs_root
def test_another_user_can_tell_a_live_run_from_one_that_stopped() -> None:
    """A page for several users is served by one of them, who cannot open the lock files."""
    ask = """
        from pathlib import Path
        import klarm.journal
        {}
        from klarm.journal import is_surely_free
        print(is_surely_free(Path("klarm_runs/a/journal.jsonl")))
    """
    ask = textwrap.dedent(ask).format(LET_GO_OF_ROOT)
    klarm.init("a", console=False)
    klarm.log({"kl": 0.1})
    assert run_python(ask).stdout == "False\n"
    klarm.finish()
    assert run_python(ask).stdout == "True\n"
