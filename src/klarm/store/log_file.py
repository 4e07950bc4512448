"""A log of a store as a file to read, for code that reads files."""

from __future__ import annotations

import io
import os

from klarm.store.base import Store


class LogFile(io.RawIOBase):
    """Reads one log of one run. A log that does not exist reads as empty."""

    def __init__(self, store: Store, run: str, log: str = "journal") -> None:
        self._store, self._run, self._log = store, run, log
        self._at = 0

    def readable(self) -> bool:
        """Return that it can be read."""
        return True

    def seekable(self) -> bool:
        """Return that every offset can be read."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to an offset from the beginning or from the end."""
        if whence == os.SEEK_END:
            found = self._store.runs(only=[self._run]).cursor.get(self._run)
            state = None if found is None else found.logs.get(self._log)
            offset += 0 if state is None else state.size
        elif whence == os.SEEK_CUR:
            offset += self._at
        self._at = offset
        return offset

    def tell(self) -> int:
        """Return the current offset."""
        return self._at

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes."""
        if size < 0:
            at = self._at
            size = max(0, self.seek(0, os.SEEK_END) - at)
            self._at = at
        data = self._store.read(self._run, self._log, self._at, size)
        self._at += len(data)
        return data
