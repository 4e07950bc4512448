"""A folder of runs as a store: a folder per run, a file per log."""

from __future__ import annotations

import base64
import contextlib
import errno
import hashlib
import os
import re
import stat
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from klarm.delivery import LOCK_NAME, deliveries
from klarm.journal import (
    COMMANDS_FILE,
    FILE_NAME,
    Claim,
    append_lines,
    is_surely_free,
    lock_of,
)
from klarm.store.base import LOGS, Listing, LogState, OffsetError, Role, RunAt
from klarm.store.summaries import Summaries

_FILES = {
    "journal": FILE_NAME,
    "commands": COMMANDS_FILE,
    "deliveries": deliveries.FILE_NAME,
    "false_alarms": "false_alarms.jsonl",
}
_JOURNAL = os.fsencode(FILE_NAME)
_MAX_DEPTH = 8
_PLAIN = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
# Only these say that something does not exist; whatever else fails may work again later.
_GONE = (errno.ENOENT, errno.ENOTDIR)


class FolderStore:
    """The runs below a folder. A run is named by the path of its folder, relative to that."""

    def __init__(self, root: Path) -> None:
        """Take the folder, which need not exist yet."""
        self.root = root.absolute()
        self._summaries = Summaries()

    def path(self, run: str, log: str = "journal") -> Path:
        """Return the file of a log. A log of another rank is called `journal-3`."""
        return self.root / run / _FILES.get(log, f"{log}.jsonl")

    def runs(
        self, since: Mapping[str, RunAt] | None = None, only: Collection[str] | None = None
    ) -> Listing:
        """Return which runs have changed since a listing, or how some runs are."""
        earlier = since or {}
        found: dict[str, RunAt] = {}
        if only is None:
            for relative in runs_below(os.fsencode(self.root), earlier.keys()):
                if (run := self._at(os.fsdecode(relative))) is not None:
                    found[run.run] = run
        else:
            found = {name: run for name in only if (run := self._at(name)) is not None}
            earlier = {name: run for name, run in earlier.items() if name in only}
        changed = [run for name, run in found.items() if earlier.get(name) != run]
        return Listing(changed, earlier.keys() - found.keys(), found)

    def read(self, run: str, log: str, offset: int, size: int) -> bytes:
        """Return up to `size` bytes of a log from an offset on; none if it does not exist."""
        try:
            with self.path(run, log).open("rb") as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):  # it may be endless
                    return b""
                file.seek(offset)
                return file.read(size)
        except OSError as error:
            if error.errno in _GONE:
                return b""
            raise

    def append(self, run: str, log: str, data: bytes, at: int | None = None) -> int:
        """Append to a log, whole lines at a time, and return where it ends now."""
        path = self.path(run, log)
        if at is not None and (end := _size(path)) != at:
            raise OffsetError(end)
        append_lines(path, data)
        return _size(path)

    def summary(self, run: str, new: bytes | None = None) -> bytes:
        """Return or keep the summary of a run, in the user's cache folder."""
        if new is not None:
            self._summaries.keep(self.path(run), new)
            return new
        return self._summaries.of(self.path(run))

    def claim(self, run: str, role: Role) -> Claim | None:
        """Take the right to record or to deliver a run; None if another process has it."""
        path = self.path(run)
        return Claim.on(lock_of(path) if role == "record" else path.with_name(LOCK_NAME))

    def is_free(self, run: str, role: Role) -> bool:
        """Return whether surely no process has this right."""
        path = self.path(run)
        return is_surely_free(path if role == "record" else path.with_name(LOCK_NAME))

    def _at(self, run: str) -> RunAt | None:
        """Return how a run is; None if it does not exist. May raise OSError."""
        logs = {}
        folder = f"{self.root}/{run}/" if run else f"{self.root}/"
        for log in LOGS:
            try:
                found = os.stat(folder + _FILES[log])  # noqa: PTH116  # of every run: Path is slow
            except OSError as error:
                if error.errno not in _GONE:
                    raise
                if log == "journal":
                    return None
            else:
                logs[log] = LogState(found.st_ino, found.st_size, found.st_mtime_ns)
        return RunAt(run, logs)


def runs_below(root: bytes, known: Collection[str] = ()) -> Iterator[bytes]:
    """Yield the folders of runs as paths relative to `root`; empty if `root` itself is a run.

    Symbolic links are not followed, so nothing outside the folder is ever read. Hidden folders and
    folders within a run are left out. Known runs are not looked into. May raise OSError.
    """
    yield from _below(root, b"", 0, {os.fsencode(run) for run in known})


def _below(root: bytes, relative: bytes, depth: int, known: Collection[bytes]) -> Iterator[bytes]:
    if relative in known and os.path.isfile(root + b"/" + relative + b"/" + _JOURNAL):  # noqa: PTH113
        yield relative
        return
    folders = []
    try:
        with os.scandir(root + b"/" + relative) as entries:
            for entry in entries:
                if entry.name == _JOURNAL and entry.is_file(follow_symlinks=False):
                    yield relative
                    return
                if not entry.name.startswith(b".") and entry.is_dir(follow_symlinks=False):
                    folders.append(entry.name)
    except OSError as error:
        if error.errno in (*_GONE, errno.EACCES):  # deleted meanwhile, or not for us
            return
        raise
    if depth < _MAX_DEPTH:
        for name in sorted(folders):
            path = relative + b"/" + name if relative else name
            yield from _below(root, path, depth + 1, known)


def id_of(run: str) -> str:
    """Return the id of a run in URLs: the name of its folder if it is simple, else a hash.

    >>> id_of("grpo-7b"), id_of("team/grpo-7b"), id_of("../../etc")
    ('grpo-7b', '~2c7wfc3dka7j', '~otgphrnuygni')
    """
    relative = os.fsencode(run)
    if _PLAIN.fullmatch(relative):
        return relative.decode()
    digest = hashlib.sha256(relative).digest()
    return "~" + base64.b32encode(digest).decode().lower()[:12]


def shown(run: str) -> str:
    """Return a path as text; bytes that are not UTF-8 are replaced."""
    return os.fsencode(run).decode(errors="replace")


def _size(path: Path) -> int:
    with contextlib.suppress(FileNotFoundError):
        return path.stat().st_size
    return 0
