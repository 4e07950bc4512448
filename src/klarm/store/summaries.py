"""The summaries of runs in the user's cache folder: what was known of a journal at an offset.

They make cold starts fast, and nothing depends on them: one that is missing, old or damaged is
made again from its journal.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import time
import zlib
from pathlib import Path

_UNUSED_SECONDS = 60 * 86_400
_SUFFIX = ".summary"


class Summaries:
    """One file per run, which only this user can read."""

    def __init__(self, folder: Path | None = None) -> None:
        """Take the folder; by default, the one of klarm in the user's cache."""
        self._folder = folder or _cache_folder()
        self._is_usable: bool | None = None
        self._has_discarded = False

    def of(self, journal: Path) -> bytes:
        """Return the summary of a journal; nothing if there is none that is whole."""
        if not self._is_there():
            return b""
        try:
            content = self._file(journal).read_bytes()
        except OSError:
            return b""
        data, crc = content[:-8], content[-8:]
        return data if crc == b"%08x" % zlib.crc32(data) else b""

    def keep(self, journal: Path, data: bytes) -> None:
        """Keep the summary of a journal, if possible; nothing to keep deletes it."""
        if not self._is_there():
            return
        file = self._file(journal)
        with contextlib.suppress(OSError):
            if not data:
                file.unlink(missing_ok=True)
                return
            # At most as open as the journal itself, within a folder that is closed anyway.
            mode = stat.S_IMODE(journal.stat().st_mode) & 0o600
            part = file.with_name(f"{file.name}.{os.getpid()}.tmp")
            try:
                handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
                with os.fdopen(handle, "wb") as written:
                    written.write(data + b"%08x" % zlib.crc32(data))
                part.replace(file)
                self._discard_unused()
            finally:
                part.unlink(missing_ok=True)

    def _file(self, journal: Path) -> Path:
        digest = hashlib.sha256(os.fsencode(journal.absolute())).hexdigest()[:24]
        return self._folder / f"{digest}{_SUFFIX}"

    def _is_there(self) -> bool:
        """Return whether the folder is there and closed to others; create it if it is missing."""
        if self._is_usable is None:
            self._is_usable = False
            with contextlib.suppress(OSError):
                self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                found = self._folder.lstat()
                is_own = not hasattr(os, "geteuid") or found.st_uid == os.geteuid()
                if stat.S_ISDIR(found.st_mode) and is_own:
                    self._folder.chmod(0o700)
                    self._is_usable = True
        return self._is_usable

    def _discard_unused(self) -> None:
        """Delete what nobody has written for two months: such runs are rarely looked at."""
        if self._has_discarded:
            return
        self._has_discarded = True
        end = time.time() - _UNUSED_SECONDS
        with os.scandir(self._folder) as entries:
            for entry in entries:
                if entry.name.endswith((_SUFFIX, ".tmp")) and entry.stat().st_mtime < end:
                    Path(entry.path).unlink(missing_ok=True)


def _cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    with contextlib.suppress(RuntimeError):  # the user has no home folder
        return Path(base).expanduser() / "klarm" / "runs"
    return Path("/nonexistent")
