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


def test_three_slow_writes_in_a_row_move_the_work_to_a_thread() -> None:
    """It is said once, nothing is lost, and the order stays."""
    said: list[str] = []
    appender = Appender(Path("a"), said.append, clock=Clock(0.025))
    for line in LINES:
        appender.append(line)
    assert any(thread.name == "klarm-journal" for thread in threading.enumerate())
    appender.close(5.0)
    assert Path("a").read_bytes() == b"".join(LINES)
    assert len(said) == 1
    assert "is slow" in said[0]


def test_a_slow_write_now_and_then_changes_nothing() -> None:
    """Two in a row are not three."""
    said: list[str] = []
    clock = Clock(0.0)
    appender = Appender(Path("a"), said.append, clock=clock)
    for i, line in enumerate(LINES):
        clock.seconds_a_write = 0.0 if i % 3 == 0 else 0.025
        appender.append(line)
    appender.close(1.0)
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
    assert "is not complete: 6 entries and 28 bytes" in said[-1]


def test_a_thread_that_cannot_be_had_leaves_the_work_where_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Slow, but nothing is lost."""

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    appender = Appender(Path("a"), lambda message: None, clock=Clock(0.025))
    for line in LINES:
        appender.append(line)
    appender.close(1.0)
    assert Path("a").read_bytes() == b"".join(LINES)


def test_a_hanging_disk_holds_neither_append_nor_close() -> None:
    """A pipe that nobody reads stands for it: writes to it block for good when it is full."""
    said: list[str] = []
    os.mkfifo("pipe")
    reader = os.open("pipe", os.O_RDONLY | os.O_NONBLOCK)
    appender = Appender(Path("pipe"), said.append, clock=Clock(0.025))
    for _ in range(200):
        appender.append(b"x" * 1000)
    appender.close(timeout=0.05)
    assert "is not complete" in said[-1]
    os.close(reader)  # the thread is let go with an error, which it takes as a full disk
