"""Locks: one claim per file, free again however its holder ends."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from klarm.journal import locks

FILE = Path("file")
LOCK = Path("file.lock")
HOLDER = """
import os, sys
from klarm.journal import locks
assert locks.claim(os.open("file", os.O_RDWR))
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def file(clean_place: None) -> Iterator[int]:
    opened = os.open(FILE, os.O_RDWR | os.O_CREAT)
    yield opened
    os.close(opened)


def test_a_claim_of_another_process_is_seen_until_it_is_killed(file: int) -> None:
    """The system frees it."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert not locks.is_surely_free(FILE)
        assert not locks.claim(file)
        holder.kill()
        holder.wait()
    assert locks.is_surely_free(FILE)
    assert locks.claim(file)


def test_asking_claims_nothing(file: int) -> None:
    """Whoever looks keeps nobody from it."""
    assert locks.is_surely_free(FILE)
    assert locks.claim(file)


def test_a_claim_that_was_given_up_is_free(file: int) -> None:
    """For the next process."""
    locks.claim(file)
    assert not locks.is_surely_free(FILE)
    locks.release(file)
    assert locks.is_surely_free(FILE)


def test_a_file_that_is_not_there_is_not_surely_free() -> None:
    """Nothing is known of it."""
    assert not locks.is_surely_free(Path("missing"))


def test_a_turn_ends_with_its_work() -> None:
    """Nobody else has it meanwhile."""
    with locks.alone(FILE):
        assert locks.Claim.on(LOCK) is None
    assert locks.Claim.on(LOCK) is not None


def test_a_turn_ends_if_its_work_fails() -> None:
    """The next one need not wait for ever."""

    def fail() -> None:
        with locks.alone(FILE):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert locks.Claim.on(LOCK) is not None


def test_a_turn_that_never_ends_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that was stopped in the middle of it."""
    monkeypatch.setattr(locks, "_MAX_WAIT_SECONDS", 0.05)
    other = locks.Claim.on(LOCK)
    with locks.alone(FILE):
        pass
    assert other is not None


def test_the_lock_file_decides_not_the_file_itself(file: int) -> None:
    """Anybody who may read the file can hold a lock on it."""
    claimed = locks.Claim.on(LOCK)
    assert claimed is not None
    assert not locks.is_surely_free(FILE)
    claimed.release()
    assert locks.claim(file)
    assert locks.is_surely_free(FILE)
