"""Locks of a run. The operating system releases them when the process ends, however it ends.

Any user who can open a file can also lock it. A lock that matters is therefore on a separate file
that only its owner can open, never on a file that others may read.
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
# If the disk does not accept a lock file, writing the journal fails as well and reports it.
_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
_MAX_WAIT_SECONDS = 2.0  # for a lock


def lock_of(path: Path) -> Path:
    """Return the lock file that belongs to a file.

    >>> lock_of(Path("klarm_runs/a/journal.jsonl")).name
    'journal.lock'
    """
    return path.with_suffix(".lock")


class InUseError(Exception):
    """Another live process is recording the run."""


class Claim:
    """The exclusive right of this process to record a run or to deliver its notifications.

    The claim is refused only if a process of the same user, or of the folder's owner, holds the
    lock. A lock file that other users can open is not respected; `doubt` then says why klarm
    cannot know whether another process has the same claim.
    """

    def __init__(self, file: int | None, doubt: str = "") -> None:
        self.doubt = doubt
        self._file = file

    @classmethod
    def on(cls, path: Path) -> Claim | None:
        """Lock a file, created if needed; return None if another process of ours holds it."""
        try:
            file = open_own(path, _FLAGS, _MODE)
        except OSError as error:
            if error.errno in _DISK_ERRORS:
                return cls(None)
            return cls(None, f"{path} cannot be opened ({error.strerror})")
        doubt = _why_unsafe(file, path)
        if not doubt and claim(file):
            return cls(file)
        os.close(file)
        return cls(None, doubt) if doubt else None

    def release(self) -> None:
        """Release the lock, so that another process can take it."""
        if self._file is not None:
            release(self._file)
        self.abandon()

    def abandon(self) -> None:
        """Close the file in a forked child; the parent keeps the lock."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)


def _why_unsafe(file: int, path: Path) -> str:
    """Return why another user may hold a lock on a file, or "". Removes the access of others."""
    if not hasattr(os, "geteuid"):  # Windows
        return ""
    found = os.fstat(file)
    if not stat.S_ISREG(found.st_mode):
        return f"{path} is not a file"
    # The owner of the folder is trusted, too: root may manage the runs of other users, and some
    # network file systems show all files as owned by one user.
    if found.st_uid not in (os.geteuid(), path.parent.stat().st_uid):
        return f"{path} belongs to another user"
    if not stat.S_IMODE(found.st_mode) & 0o077:
        return ""
    if found.st_size or found.st_nlink > 1:  # then klarm must not change its mode
        return f"{path} is not a klarm lock file"
    with contextlib.suppress(OSError):
        os.fchmod(file, _MODE)
    if stat.S_IMODE(os.fstat(file).st_mode) & 0o077:
        return ""  # the file system has no modes, so everyone with access may do anything anyway
    if claim(file):
        return ""
    return f"{path} was open to other users, and one of them may hold its lock"


def claim(file: int) -> bool:
    """Lock an open file until this process ends; return False if another process holds it."""
    try:
        import fcntl
    except ImportError:  # Windows
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # the file system has no locks
        return True
    return True


def is_surely_free(path: Path) -> bool:
    """Return whether no process is writing a file; False also if that cannot be determined.

    For users who cannot open the lock file, the file itself is locked as well: see `Appender`.
    """
    for asked in (lock_of(path), path):
        try:
            file = os.open(asked, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        except OSError:  # it does not exist, or belongs to another user
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
    except (ImportError, OSError):  # it is locked, or there are no locks on this system
        return False
    return True


def release(file: int) -> None:
    """Release the lock on an open file."""
    with contextlib.suppress(ImportError, OSError):
        import fcntl

        fcntl.flock(file, fcntl.LOCK_UN)


@contextlib.contextmanager
def alone(path: Path) -> Iterator[None]:
    """Hold the lock of a file. For short work only, and never on the training thread.

    After two seconds the work proceeds without the lock: a process that holds it that long hangs.
    """
    deadline = time.monotonic() + _MAX_WAIT_SECONDS
    while (held := Claim.on(lock_of(path))) is None and time.monotonic() < deadline:
        time.sleep(0.005)
    try:
        yield
    finally:
        if held is not None:
            held.release()
