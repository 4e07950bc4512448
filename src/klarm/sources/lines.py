"""Logs that are read line by line."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from klarm.sources.row import LogRow

# A hundred times the size of a row with 10,000 metrics. Longer lines are not kept in memory.
_MAX_LINE = 16 * 2**20
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# In a file of another kind, no line can be read, so only the first few are reported.
_MAX_SAID = 5

# Returns the row of a line, or None if the line has no row.
Parse = Callable[[str], LogRow | None]


class NotARow(ValueError):  # noqa: N818
    """A line cannot be read. The message says what is wrong with it."""


class LineReader:
    """Reads complete lines; an incomplete line waits for its end.

    `parse` returns the row of a line, or None, or raises NotARow for an invalid line. The first few
    invalid lines are reported.
    """

    def __init__(self, name: str, parse: Parse, say: Callable[[str], None]) -> None:
        self._name = name
        self._parse = parse
        self._say = say
        self._number = 0
        self._begun = bytearray()  # the incomplete line
        self._too_long = False
        self._unread = 0

    def feed(self, piece: bytes) -> Iterator[LogRow]:
        """Yield the rows of the lines that end in this piece."""
        *ends, rest = piece.split(b"\n")
        for end in ends:
            self._add(end)
            yield from self._line()
        self._add(rest)

    def quiet(self) -> Iterator[LogRow]:
        """Yield nothing: an incomplete line is not a row."""
        return iter(())

    def end(self) -> Iterator[LogRow]:
        """Yield the row of the last line, and report how many lines could not be read."""
        if self._begun or self._too_long:
            yield from self._line()
        if self._unread > _MAX_SAID:
            self._say(f"{self._name}: {self._unread} lines could not be read and were skipped")

    def _add(self, part: bytes) -> None:
        if self._too_long or len(self._begun) + len(part) > _MAX_LINE:
            self._too_long = True
            self._begun.clear()
        else:
            self._begun += part

    def _line(self) -> Iterator[LogRow]:
        self._number += 1
        line, too_long = bytes(self._begun), self._too_long
        self._begun.clear()
        self._too_long = False
        if too_long:
            self._pass_over(f"is longer than {_MAX_LINE // 2**20} MiB; skipped")
            return
        if self._number == 1:
            line = line.removeprefix(_BYTE_ORDER_MARK)
        text = line.decode("utf-8", "replace").strip("\r")
        if not text.strip():
            return
        try:
            row = self._parse(text)
        except NotARow as problem:
            self._pass_over(f"{problem}; skipped: {text.strip()[:200]!r:.60}")
            return
        if row is not None:
            yield row

    def _pass_over(self, why: str) -> None:
        self._unread += 1
        if self._unread <= _MAX_SAID:
            self._say(f"{self._name} line {self._number} {why}")
