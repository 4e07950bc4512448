"""Locks on files, held by processes: freed by the system when the process ends, however it does."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path


def claim(file: int) -> bool:
    """Claim a file for this process until it ends; return whether nobody else had."""
    try:
        import fcntl
    except ImportError:  # Windows
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True


def is_surely_free(path: Path) -> bool:
    """Tell whether no process has claimed a file; False also where that cannot be known."""
    try:
        import fcntl
    except ImportError:  # Windows
        return False
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            fcntl.flock(file, fcntl.LOCK_UN)
    except OSError:  # somebody holds it, or the file system has no locks
        return False
    return True


def release(file: int) -> None:
    """Give up a claim."""
    with contextlib.suppress(ImportError, OSError):
        import fcntl

        fcntl.flock(file, fcntl.LOCK_UN)


@contextlib.contextmanager
def alone(file: int) -> Iterator[None]:
    """Wait for one's turn with a file. For short work only, and never on the training thread."""
    with contextlib.suppress(ImportError, OSError):
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        release(file)
