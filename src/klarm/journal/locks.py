"""Locks of a run, held by processes: freed by the system when the process ends, however it does.

Whoever can open a file can hold a lock on it. So a lock that decides anything is on a file of its
own that only its owner can open, never on one that others may read.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from klarm.descriptors import open_own

_MODE = 0o600
_FLAGS = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
# Where there is no room for a lock file, other parts say so.
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
_MAX_TURN_SECONDS = 2.0  # to wait for one's turn


def lock_of(path: Path) -> Path:
    """Return the file whose lock stands for another file.

    >>> lock_of(Path("klarm_runs/a/journal.jsonl")).name
    'journal.lock'
    """
    return path.with_suffix(".lock")


class InUseError(Exception):
    """Another live process records the run."""


class Claim:
    """What this process has claimed until it ends: to record a run, or to deliver it.

    Only another process of the same user, or of the owner of the folder, can refuse it. A lock file
    that anybody else could hold keeps nobody from anything: `doubt` then says why it is not known
    whether another process has the same claim.
    """

    def __init__(self, file: int | None, doubt: str = "") -> None:
        self.doubt = doubt
        self._file = file

    @classmethod
    def on(cls, path: Path) -> Claim | None:
        """Claim a lock file, which need not exist; None if another process of ours has it."""
        try:
            file = open_own(path, _FLAGS, _MODE)
        except OSError as error:
            if error.errno in _NO_ROOM:
                return cls(None)
            return cls(None, f"{path} cannot be opened ({error.strerror})")
        doubt = _distrust(file, path)
        if not doubt and claim(file):
            return cls(file)
        os.close(file)
        return cls(None, doubt) if doubt else None

    def release(self) -> None:
        """Let another process have it."""
        if self._file is not None:
            release(self._file)
        self.abandon()

    def abandon(self) -> None:
        """Let go of it in a forked process, and leave it to the parent."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)


def _distrust(file: int, path: Path) -> str:
    """Return why another user could hold a lock on a file, if one could; shut others out."""
    if not hasattr(os, "geteuid"):  # Windows
        return ""
    found = os.fstat(file)
    if not stat.S_ISREG(found.st_mode):
        return f"{path} is not a file"
    # The folder's owner, too: root may look after the runs of others, and some network file systems
    # show everything as one user's.
    if found.st_uid not in (os.geteuid(), path.parent.stat().st_uid):
        return f"{path} belongs to another user"
    if not stat.S_IMODE(found.st_mode) & 0o077:
        return ""
    if found.st_size or found.st_nlink > 1:  # not ours to change
        return f"{path} is not a lock file of klarm's"
    with contextlib.suppress(OSError):
        os.fchmod(file, _MODE)
    if stat.S_IMODE(os.fstat(file).st_mode) & 0o077:
        return ""  # a file system without modes: who gets there may do anything
    if claim(file):
        return ""
    return f"{path} was open to other users, and one may hold it"


def claim(file: int) -> bool:
    """Claim an open file for this process until it ends; return whether nobody else had."""
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
    """Tell whether no process records into a file; False also where that cannot be known.

    Who cannot open the lock file is shown the same by the file itself: see `Appender`.
    """
    for asked in (lock_of(path), path):
        try:
            file = os.open(asked, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        except OSError:  # not there, or somebody else's
            continue
        try:
            return _is_free(file)
        finally:
            os.close(file)
    return False


def _is_free(file: int) -> bool:
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        fcntl.flock(file, fcntl.LOCK_UN)
    except (ImportError, OSError):  # somebody holds it, or there are no locks
        return False
    return True


def release(file: int) -> None:
    """Give up a claim."""
    with contextlib.suppress(ImportError, OSError):
        import fcntl

        fcntl.flock(file, fcntl.LOCK_UN)


@contextlib.contextmanager
def alone(path: Path) -> Iterator[None]:
    """Wait for one's turn with a file. For short work only, and never on the training thread.

    Nobody waits for long: whoever holds up others for seconds is not at work any more.
    """
    ends_at = time.monotonic() + _MAX_TURN_SECONDS
    while (turn := Claim.on(lock_of(path))) is None and time.monotonic() < ends_at:
        time.sleep(0.005)
    try:
        yield
    finally:
        if turn is not None:
            turn.release()
