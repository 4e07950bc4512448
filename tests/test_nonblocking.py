"""Nobody who fails to read what klarm writes can make training wait."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import subprocess
import sys
import textwrap
import threading
import time
import tty
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from klarm import nonblocking
from klarm.nonblocking import write_now

LONG = 30.0  # seconds, in which even a busy machine gets round to a thread

Ends = tuple[int, int]


def socket_pair() -> Ends:
    reading, writing = (end.detach() for end in socket.socketpair())
    return reading, writing


PAIRS: dict[str, Callable[[], Ends]] = {
    "pipe": os.pipe,
    "terminal": os.openpty,
    "socket": socket_pair,
}


@pytest.fixture(params=PAIRS)
def ends(request: pytest.FixtureRequest) -> Iterator[Ends]:
    """Return what to read from, and what to write to."""
    pair = PAIRS[request.param]()
    yield pair
    for end in pair:
        with contextlib.suppress(OSError):  # a test may have closed it
            os.close(end)


@pytest.fixture(params=[False, True], ids=["opened_again", "not_opened_again"])
def own_thread(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have it written both ways, the second as if stderr were another user's terminal."""
    monkeypatch.setattr(nonblocking, "_thread", nonblocking._WritingThread())
    if request.param:
        monkeypatch.setattr(nonblocking, "_opened_again", lambda file: None)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait long for the thread, where a test is about what arrives."""
    monkeypatch.setattr(nonblocking, "_SECONDS_FOR_THE_THREAD", LONG)


def fill(file: int) -> None:
    """Write until nothing more is taken."""
    os.set_blocking(file, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(file, b"y" * 4096)
    os.set_blocking(file, True)


def read_until(file: int, end: bytes) -> bytes:
    """Read until what was read ends so."""
    read = b""
    while not read.endswith(end):
        ready, _, _ = select.select([file], [], [], LONG)
        assert ready, f"only {read[-200:]!r} arrived"
        read += os.read(file, 65_536)
    return read


def in_time(write: Callable[[], bool]) -> bool:
    """Return what a write returns; fail if it waits for a reader."""
    returned: list[bool] = []
    thread = threading.Thread(target=lambda: returned.append(write()), daemon=True)
    thread.start()
    thread.join(LONG)
    assert returned, "the write waits for a reader"
    return returned[0]


@pytest.mark.usefixtures("own_thread", "patient")
def test_what_is_read_arrives_whole(ends: Ends) -> None:
    """In the order in which it was written."""
    reading, writing = ends
    for line in range(50):
        assert write_now(writing, b"line %d;" % line)
    assert read_until(reading, b"49;") == b"".join(b"line %d;" % line for line in range(50))


@pytest.mark.usefixtures("own_thread")
def test_where_nothing_is_read_no_write_waits(ends: Ends) -> None:
    """However long the text is, and however often."""
    _, writing = ends
    for _ in range(20):
        assert not in_time(lambda: write_now(writing, b"x" * 300_000))


@pytest.mark.usefixtures("own_thread")
def test_little_room_is_no_room(ends: Ends) -> None:
    """A terminal with room for a few bytes counts as ready, and a longer write to it blocks."""
    reading, writing = ends
    fill(writing)
    os.read(reading, 1_000)
    assert not in_time(lambda: write_now(writing, b"x" * 100_000))


@pytest.mark.usefixtures("own_thread")
def test_a_reader_who_comes_back_is_written_to_again(ends: Ends) -> None:
    """Also after text was dropped."""
    reading, writing = ends
    fill(writing)
    assert not in_time(lambda: write_now(writing, b"x" * 100_000))
    # A few bytes might fit: a terminal passes on what it was given a moment later.
    assert not in_time(lambda: write_now(writing, b"dropped" * 10_000))
    reader = threading.Thread(target=read_until, args=(reading, b"back again"), daemon=True)
    reader.start()
    until = time.monotonic() + LONG
    while not in_time(lambda: write_now(writing, b"back again")) and time.monotonic() < until:
        time.sleep(0.01)
    reader.join(LONG)
    assert not reader.is_alive()


@pytest.mark.usefixtures("own_thread")
def test_what_a_slow_reader_has_not_read_yet_arrives_in_order(ends: Ends) -> None:
    """A terminal that shows a box a moment later than klarm writes it shows all of it."""
    reading, writing = ends
    fill(writing)
    lines = [b"line %d;" % number for number in range(50)]
    for line in lines:
        in_time(partial(write_now, writing, line))
    assert read_until(reading, lines[-1]).endswith(b"".join(lines))


@pytest.mark.usefixtures("own_thread", "patient")
def test_two_who_write_to_a_terminal_at_once_lose_nothing() -> None:
    """Such as a progress bar: the terminal refuses a write while another one is under way."""
    reading, writing = os.openpty()
    tty.setraw(writing)
    read, others = bytearray(), threading.Event()

    def progress() -> None:
        while not others.is_set():
            os.write(writing, b"." * 4_000)

    def collect() -> None:
        while not read.endswith(b"end"):
            read.extend(os.read(reading, 65_536))

    threads = [threading.Thread(target=work, daemon=True) for work in (collect, progress, progress)]
    for thread in threads:
        thread.start()
    lines = [b"<%d>" % number for number in range(300)]
    written = [write_now(writing, line) for line in lines]
    others.set()
    for thread in threads[1:]:
        thread.join(LONG)
    os.write(writing, b"end")
    threads[0].join(LONG)
    assert all(written)
    assert bytes(read).replace(b".", b"") == b"".join(lines) + b"end"
    os.close(reading)
    os.close(writing)


@pytest.mark.usefixtures("own_thread", "patient")
def test_a_closed_end_is_no_reader() -> None:
    """Nothing raises, and the next text goes where somebody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    assert not write_now(writing, b"to nobody")
    os.close(writing)
    reading, writing = os.pipe()
    assert write_now(writing, b"to somebody")
    assert read_until(reading, b"body") == b"to somebody"
    os.close(reading)
    os.close(writing)


@pytest.mark.parametrize("kind", PAIRS)
@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_process_ends_although_nobody_reads(kind: str, elsewhere: bool) -> None:
    """A text that is still being written does not hold it up; nor a child that it forks."""
    reading, writing = PAIRS[kind]()
    code = f"""
        import os
        from klarm import nonblocking, terminal
        if {elsewhere}:
            nonblocking._opened_again = lambda file: None
        for _ in range(20):
            terminal.write_stderr("x" * 300_000)
        child = os.fork()
        terminal.write_stderr("x" * 300_000)
        if child:
            os.waitpid(child, 0)
            print("done")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        stdout=subprocess.PIPE,
        stderr=writing,
        text=True,
        timeout=60,
        check=False,
    )
    os.close(reading)
    os.close(writing)
    assert (done.returncode, done.stdout) == (0, "done\n")


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_forked_child_writes_too(elsewhere: bool) -> None:
    """It has no thread of its parent's, and the parent's may have been stuck."""
    code = f"""
        import os
        from klarm import nonblocking
        if {elsewhere}:
            nonblocking._opened_again = lambda file: None
        reading, full = os.pipe()
        assert not nonblocking.write_now(full, b"x" * 300_000)
        nonblocking._SECONDS_FOR_THE_THREAD = {LONG}
        if not os.fork():
            os._exit(nonblocking.write_now(2, b"from the child"))
        assert os.waitstatus_to_exitcode(os.wait()[1]) == 1
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "from the child")


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
