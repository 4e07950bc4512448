"""Follows a log while it grows, and yields each row once, even after restarts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from klarm.journal import FILE_NAME, Source, is_journal
from klarm.metrics import Binding
from klarm.sources import document, tensorboard
from klarm.sources.copied import is_compressed
from klarm.sources.formats import reader_for
from klarm.sources.recorded import PassingOver, Recorded
from klarm.sources.row import LogRow, SourceError

_PIECE = 2**20
# A file is identified by this many bytes of its beginning, and of the part read last.
_KNOWN_BYTES = 1024


class Rewritten(Exception):  # noqa: N818
    """A file no longer contains what was read from it. The message is its path."""


class Tail:
    """One file that grows. It is reopened each time, because a stale handle never recovers."""

    def __init__(
        self,
        path: Path,
        say: Callable[[str], None],
        step_column: str = "",
        on_bytes: Callable[[int], object] = lambda _: None,
    ) -> None:
        self.path = path
        self._on_bytes = on_bytes
        self._reader = reader_for(path, say, step_column)
        self._position = 0
        self._first = b""
        self._last = b""  # before the position

    def rows(self) -> Iterator[LogRow]:
        """Yield the rows that were added; raise Rewritten, or OSError if it cannot be read now."""
        with self.path.open("rb") as file:
            if file.read(len(self._first)) != self._first:
                raise Rewritten(self.path)
            file.seek(self._position - len(self._last))
            if file.read(len(self._last)) != self._last:
                raise Rewritten(self.path)
            grown = False
            while piece := file.read(_PIECE):
                grown = True
                if len(self._first) < _KNOWN_BYTES:
                    self._first = (self._first + piece)[:_KNOWN_BYTES]
                self._last = (self._last + piece)[-_KNOWN_BYTES:]
                self._position += len(piece)
                self._on_bytes(len(piece))
                yield from self._reader.feed(piece)
        if not grown:
            yield from self._reader.quiet()

    def end(self) -> Iterator[LogRow]:
        """Yield the rows that were held back, because the log is complete."""
        return self._reader.quiet()


class DocumentTail:
    """A file that is rewritten as a whole each time, with more rows at its end."""

    def __init__(self, path: Path, step_column: str = "") -> None:
        self.path = path
        self._step_column = step_column
        self._seen: os.stat_result | None = None
        self._rows: list[LogRow] = []  # the rows that were yielded

    def rows(self) -> Iterator[LogRow]:
        """Yield the rows that were added; raise Rewritten, or OSError if it cannot be read now."""
        found = self.path.stat()
        if self._seen is not None and os.path.samestat(found, self._seen):
            unchanged = (found.st_size, found.st_mtime_ns)
            if unchanged == (self._seen.st_size, self._seen.st_mtime_ns):
                return
        try:
            rows = document.read(self.path, self._step_column)
        except SourceError:  # no rows yet
            return
        if rows is None:  # it is being written
            return
        known = len(self._rows)
        if rows[:known] != self._rows:
            raise Rewritten(self.path)
        self._seen, self._rows = found, rows
        yield from rows[known:]

    def end(self) -> Iterator[LogRow]:
        """Yield nothing: no rows are held back."""
        return iter(())


class Follower:
    """Follows a file, or the event files of a folder one after the other.

    `poll` never waits. It raises only SourceError, for logs that can never be followed. A file that
    does not exist yet, or cannot be read now, is reported once and tried again the next time. Rows
    that the journal already has are skipped. A log that differs from the journal belongs to a run
    that was started again, and is read from where it differs.
    """

    def __init__(
        self,
        path: Path,
        journal: Path,
        say: Callable[[str], None],
        new_binding: Callable[[], Binding] = Binding,
        *,
        waits: bool = True,
        step_column: str = "",
        on_row: Callable[[], object] = lambda: None,
        on_bytes: Callable[[int], object] = lambda _: None,
    ) -> None:
        """Prepare to follow. `on_row` and `on_bytes` are called for all that is read."""
        self.path = path
        self._on_row = on_row
        self._on_bytes = on_bytes
        self.rows_read = 0  # including those that were skipped
        self._journal = journal
        self._say = say
        self._new_binding = new_binding
        self._waits = waits  # whether to report a log that does not exist yet
        self._step_column = step_column
        self.trouble = ""  # why the log cannot be read at the moment
        self._tail: Tail | DocumentTail | None = None
        self._passing = PassingOver(new_binding())
        self._noted = False  # the file that the rows are from

    @property
    def binding(self) -> Binding:
        """The binding of the rows that were skipped."""
        return self._passing.binding

    def poll(self) -> Iterator[LogRow | Source]:
        """Yield the new rows, preceded by their source if it has changed."""
        try:
            yield from self._poll()
        except Rewritten as rewritten:
            self._say(f"{rewritten} was truncated or replaced; reading it again from the beginning")
            self._start(Path(str(rewritten)), Recorded(self._journal))
        except FileNotFoundError:
            if self._waits:
                self._in_trouble(f"{self.path} does not exist yet; waiting for it")
        except OSError as error:
            self._in_trouble(f"cannot read {self.path} ({error.strerror}): trying again")
        else:
            if self.trouble and self._tail is not None:
                self.trouble = ""
                self._say(f"{self.path} exists now; reading it")

    def _poll(self) -> Iterator[LogRow | Source]:
        tail = self._tail or self._open()
        while tail is not None:
            # Listed before reading: when a trainer begins a new file, the previous one is complete.
            following = self._next_file(tail.path)
            yield from self._new(tail.rows())
            if following is None:
                return
            yield from self._new(tail.end())
            tail = self._start(following, None)

    def _new(self, rows: Iterator[LogRow]) -> Iterator[LogRow | Source]:
        for row in rows:
            self.rows_read += 1
            self._on_row()
            yield from self._note(self._passing.take(row))
        yield from self._note(self._passing.pause())

    def _note(self, rows: list[LogRow]) -> Iterator[LogRow | Source]:
        if rows and self._passing.differs and not self._noted and self._tail is not None:
            self._refuse_other_steps(self._tail.path)
            self._noted = True
            path = str(self._tail.path.absolute())
            yield Source(path, self._passing.kept, self._step_column)
        yield from rows

    def _refuse_other_steps(self, path: Path) -> None:
        """Raise SourceError if the log only differs because another column has its steps."""
        before, now = self._passing.step_column, self._step_column
        if before is not None and before != now:
            raise SourceError(
                f"{path} was recorded with {_named(before)} and is now read with {_named(now)}, "
                f"which gives its rows other steps: name a new run with --run, or use "
                f"{_named(before)} again"
            )

    def _open(self) -> Tail | DocumentTail | None:
        """Continue with the file that was read last, or begin with the first."""
        files = self._files()
        if not files:
            if self._waits:
                self._in_trouble(f"{self.path} holds no event files yet; waiting for one")
            return None
        recorded = Recorded(self._journal)
        if recorded.path is None or not self.path.is_dir() or _is_document(files[0]):
            return self._start(files[0], recorded)
        last = recorded.path
        after = (file for file in files if tensorboard.order(file) >= tensorboard.order(last))
        file = next(after, files[0])
        return self._start(file, recorded if file.name == last.name else None)

    def _next_file(self, current: Path) -> Path | None:
        if not self.path.is_dir() or isinstance(self._tail, DocumentTail):
            return None
        place = tensorboard.order(current)
        return next((file for file in self._files() if tensorboard.order(file) > place), None)

    def _start(self, file: Path, recorded: Recorded | None) -> Tail | DocumentTail:
        column = self._step_column
        if _is_document(file):
            self._tail = DocumentTail(file, column)
        else:
            self._tail = Tail(file, self._say, column, self._on_bytes)
        self._passing = PassingOver(self._new_binding(), recorded)
        self._noted = False
        return self._tail

    def _files(self) -> list[Path]:
        if not self.path.is_dir():
            _refuse_what_is_no_log(self.path)
            return [self.path]
        if (self.path / FILE_NAME).is_file():
            _refuse_what_is_no_log(self.path / FILE_NAME)
        state = self.path / document.TRAINER_STATE
        return [state] if state.is_file() else tensorboard.event_files(self.path)

    def _in_trouble(self, message: str) -> None:
        if message != self.trouble:
            self.trouble = message
            self._say(message)


def _named(step_column: str) -> str:
    return f"the step column {step_column!r}" if step_column else "no step column"


def _is_document(path: Path) -> bool:
    return path.name == document.TRAINER_STATE or (
        document.looks_like_one(path) and document.read(path) is not None
    )


def _refuse_what_is_no_log(path: Path) -> None:
    path.stat()  # raises if it does not exist
    if not path.is_file():
        raise SourceError(f"{path} is not a file; save what it gives to one first")
    if is_compressed(path):
        raise SourceError(f"{path} is compressed: klarm follow cannot read it, klarm replay can")
    if is_journal(path):
        raise SourceError(f"{path} is a journal of klarm: its run is already watched")
