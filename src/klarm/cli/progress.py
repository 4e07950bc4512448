"""Shows the progress of a command on a terminal, if it takes more than two seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from klarm.terminal import echo_progress

_Item = TypeVar("_Item")
_AFTER_SECONDS = 2.0
_EVERY_SECONDS = 0.1
_WIDTH = 30  # of the bar, in characters


class Progress:
    """A progress bar if the size of what is read is known, and a count of rows."""

    def __init__(
        self,
        size: int = 0,
        clock: Callable[[], float] = time.monotonic,
        show: Callable[[str], object] = echo_progress,
        counted: str = "rows",
    ) -> None:
        self._size = size  # in bytes; 0: not known
        self._counted = counted
        self._clock = clock
        self._show = show
        self._read = 0
        self._rows = 0
        self._due = clock() + _AFTER_SECONDS
        self._is_shown = False
        self._is_over = False

    def over(self, rows: Iterable[_Item]) -> Iterator[_Item]:
        """Yield the rows and show the progress, which is removed at the end."""
        try:
            for row in rows:
                self.on_row()
                yield row
        finally:
            self.end()

    def on_bytes(self, count: int) -> None:
        """Note how many more bytes were read."""
        self._read += count

    def on_row(self) -> None:
        """Note one more row, and show the progress if it is due."""
        if not self._is_over:
            self._rows += 1
            self._show_if_due(f"{self._rows:,} {self._counted}")

    def on_read(self, read: int, size: int) -> None:
        """Note how many bytes were read of how many, and show the progress if it is due."""
        self._read, self._size = read, size
        self._show_if_due("")

    def end(self) -> None:
        """Remove the progress. Rows that come later no longer count."""
        self._is_over = True
        if self._is_shown:
            self._is_shown = False
            self._show("")

    def _show_if_due(self, text: str) -> None:
        if self._clock() >= self._due:
            self._due = self._clock() + _EVERY_SECONDS
            self._is_shown = True
            self._show(f"{self._bar()}{text}")

    def _bar(self) -> str:
        if not self._size or not self._read:
            return ""
        share = min(self._read / self._size, 1.0)
        done = round(share * _WIDTH)
        return f"{'█' * done}{'░' * (_WIDTH - done)} {share:>4.0%}  "


def size_of(log: Path) -> int:
    """Return the size of a log in bytes; 0 if it is not known."""
    try:
        files = [log] if log.is_file() else [file for file in log.iterdir() if file.is_file()]
        return sum(file.stat().st_size for file in files)
    except OSError:
        return 0
