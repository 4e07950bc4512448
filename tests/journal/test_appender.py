"""Appending when the disk is well, slow, full, and well again."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from klarm.journal import appender as module
from klarm.journal.appender import Appender

LINES = [f"line {i}\n".encode() for i in range(200)]


class Clock:
    """A clock that shows every write to have taken so long."""

    def __init__(self, seconds_a_write: float) -> None:
        self.seconds_a_write = seconds_a_write
        self._ticks = self._tick()

    def _tick(self) -> Iterator[float]:
        now = 0.0
        while True:
            yield now
            now += self.seconds_a_write

    def __call__(self) -> float:
        return next(self._ticks)


def test_lines_are_on_disk_when_append_returns() -> None:
    """No buffer of ours lies between: that is what survives a kill."""
    said: list[str] = []
    appender = Appender(Path("a"), said.append)
    for i, line in enumerate(LINES):
        appender.append(line)
        assert Path("a").stat().st_size == sum(map(len, LINES[: i + 1]))
    appender.close(1.0)
    assert said == []


class Disk:
    """A clock by which writes take as long as the test says, and steps a second."""

    def __init__(self) -> None:
        self.now = 0.0
        self.next_write = 0.0  # seconds
        self._writing = False

    def __call__(self) -> float:
        if self._writing:
            self.now += self.next_write
        self._writing = not self._writing
        return self.now


def stalled(seconds: list[float], between: float = 1.0) -> tuple[float, list[str]]:
    """Append lines that take so long to write; return what that cost, and what was said."""
    said: list[str] = []
    disk = Disk()
    appender = Appender(Path("a"), said.append, clock=disk)
    lost = 0.0
    for i, took in enumerate(seconds):
        disk.next_write = took
        before = disk.now
        appender.append(f"line {i}\n".encode())
        lost += disk.now - before
        disk.now += between
    appender.close(5.0)
    assert Path("a").read_text().splitlines() == [f"line {i}" for i in range(len(seconds))]
    return lost, said


def test_writes_that_are_slow_now_and_then_move_the_work_to_a_thread() -> None:
    """Quick ones in between change nothing; it is said once, nothing is lost, the order stays."""
    lost, said = stalled([0.0, 0.0, 0.0, 0.9] * 10)
    assert lost == pytest.approx(0.9)
    (line,) = said
    assert "writing a is slow (0.9 s lost within a minute)" in line


def test_one_write_that_hangs_is_enough() -> None:
    """The second does not cost the training anything."""
    lost, said = stalled([0.0, 10.0, 10.0, 10.0])
    assert lost == 10.0
    assert "10.0 s" in said[0]


def test_many_small_delays_add_up() -> None:
    """More than one per cent of the last minute: a network file system."""
    lost, said = stalled([0.025] * 100)
    assert lost == pytest.approx(0.625)
    assert len(said) == 1


def test_less_than_one_per_cent_changes_nothing() -> None:
    """A thread that is behind loses more when the process is killed."""
    lost, said = stalled([0.5 if i % 90 == 0 else 0.0001 for i in range(900)])
    assert lost == pytest.approx(5.0, rel=0.1)
    assert said == []


def test_quick_writes_never_count_however_many() -> None:
    """A replay writes all the time, and the disk keeps up."""
    lost, said = stalled([0.0005] * 10_000, between=0.0)
    assert lost == pytest.approx(5.0)
    assert said == []


def test_what_is_more_than_memory_should_hold_is_dropped_and_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both while the disk is full and while the thread is behind."""
    monkeypatch.setattr(module, "_MAX_WAITING_BYTES", 30)
    said: list[str] = []
    appender = Appender(Path("/dev/full"), said.append)
    for line in LINES[:10]:
        appender.append(line)
    appender.close(0.1)
    assert len(appender._waiting) <= 30
    assert "is incomplete: 6 entries and 28 bytes" in said[-1]


def test_a_thread_that_cannot_be_had_leaves_the_work_where_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Slow, but nothing is lost."""

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    appender = Appender(Path("a"), lambda message: None, clock=Clock(2.0))
    for line in LINES:
        appender.append(line)
    appender.close(1.0)
    assert Path("a").read_bytes() == b"".join(LINES)


def test_a_hanging_disk_holds_neither_append_nor_close() -> None:
    """A pipe that nobody reads stands for it: writes to it block for good when it is full."""
    said: list[str] = []
    os.mkfifo("pipe")
    reader = os.open("pipe", os.O_RDONLY | os.O_NONBLOCK)
    appender = Appender(Path("pipe"), said.append, clock=Clock(2.0))
    for _ in range(200):
        appender.append(b"x" * 1000)
    appender.close(timeout=0.05)
    assert "is incomplete" in said[-1]
    os.close(reader)  # the thread is let go with an error, which it takes as a full disk


def test_the_thread_keeps_up_with_a_caller_that_never_rests() -> None:
    """It gets the interpreter rarely, and writes all that waits when it does."""
    said: list[str] = []
    appender = Appender(Path("a"), said.append, clock=Clock(2.0))
    count = module._MAX_WAITING_BATCHES + 50_000
    for number in range(count):
        appender.append(b"%d\n" % number)
        sum(range(500))  # as long as a call of `log` takes
    appender.close(60.0)
    assert len(said) == 1  # that a thread writes
    assert Path("a").read_bytes().split() == [b"%d" % number for number in range(count)]
