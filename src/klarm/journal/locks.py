"""Locks on files, held by processes: freed by the system when the process ends, however it does."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


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
