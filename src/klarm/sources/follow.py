"""Following a log while it grows: each row once, whatever happens to the file or to klarm."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from klarm.journal import FILE_NAME, Source, is_journal
from klarm.metrics import Binding
from klarm.sources import document, tensorboard
from klarm.sources.formats import reader_for
from klarm.sources.recorded import PassingOver, Recorded
from klarm.sources.row import LogRow, SourceError

_PIECE = 2**20
# By so much of its beginning, and of what was read last, a file is known again.
_KNOWN_BYTES = 1024


class Rewritten(Exception):  # noqa: N818
    """A file does not hold any more what was read from it; its text is the path."""


class Tail:
    """One file that grows. It is opened anew each time: a stale handle would never recover."""

    def __init__(self, path: Path, say: Callable[[str], None]) -> None:
        self.path = path
        self._reader = reader_for(path, say)
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
                yield from self._reader.feed(piece)
        if not grown:
            yield from self._reader.quiet()

    def end(self) -> Iterator[LogRow]:
        """Yield what was held back: nothing is added any more."""
        return self._reader.quiet()


class Follower:
    """Follows a file, or the event files of a folder one after the other.

    `poll` never waits and raises only SourceError, for what can never be followed: a file that is
    not there yet, or that cannot be read now, is said once and tried again the next time. What the
    journal holds already is passed over; a log that differs from it is a run that started again,
    and is read from where it differs.
    """

    def __init__(
        self,
        path: Path,
        journal: Path,
        say: Callable[[str], None],
        new_binding: Callable[[], Binding] = Binding,
        *,
        waits: bool = True,
    ) -> None:
        self.path = path
        self.rows_read = 0  # those passed over among them
        self._journal = journal
        self._say = say
        self._new_binding = new_binding
        self._waits = waits  # for a log that is not there yet: else nothing is said of it
        self._trouble = ""
        self._tail: Tail | None = None
        self._passing = PassingOver(new_binding())
        self._noted = False  # where the rows are from

    def poll(self) -> Iterator[LogRow | Source]:
        """Yield the rows that are new, and before them, if need be, where they are from."""
        try:
            yield from self._poll()
        except Rewritten as rewritten:
            self._say(f"{rewritten} was truncated or replaced: it is read again from its beginning")
            self._start(Path(str(rewritten)), Recorded(self._journal))
        except FileNotFoundError:
            if self._waits:
                self._in_trouble(f"{self.path} is not there: waiting for it")
        except OSError as error:
            self._in_trouble(f"cannot read {self.path} ({error.strerror}): trying again")
        else:
            if self._trouble and self._tail is not None:
                self._trouble = ""
                self._say(f"{self.path} is there and is read")

    def _poll(self) -> Iterator[LogRow | Source]:
        tail = self._tail or self._open()
        while tail is not None:
            # Asked for before reading: a trainer that begins a new file has finished this one.
            following = self._next_file(tail.path)
            yield from self._new(tail.rows())
            if following is None:
                return
            yield from self._new(tail.end())
            tail = self._start(following, None)

    def _new(self, rows: Iterator[LogRow]) -> Iterator[LogRow | Source]:
        for row in rows:
            self.rows_read += 1
            yield from self._note(self._passing.take(row))
        yield from self._note(self._passing.pause())

    def _note(self, rows: list[LogRow]) -> Iterator[LogRow | Source]:
        if rows and self._passing.differs and not self._noted and self._tail is not None:
            self._noted = True
            yield Source(str(self._tail.path.absolute()), self._passing.kept)
        yield from rows

    def _open(self) -> Tail | None:
        """Begin with the file that was read last, or with the first."""
        files = self._files()
        if not files:
            if self._waits:
                self._in_trouble(f"{self.path} holds no event files yet: waiting for one")
            return None
        recorded = Recorded(self._journal)
        if recorded.path is None or not self.path.is_dir():
            return self._start(files[0], recorded)
        last = recorded.path
        after = (file for file in files if tensorboard.order(file) >= tensorboard.order(last))
        file = next(after, files[0])
        return self._start(file, recorded if file.name == last.name else None)

    def _next_file(self, current: Path) -> Path | None:
        if not self.path.is_dir():
            return None
        place = tensorboard.order(current)
        return next((file for file in self._files() if tensorboard.order(file) > place), None)

    def _start(self, file: Path, recorded: Recorded | None) -> Tail:
        self._tail = Tail(file, self._say)
        self._passing = PassingOver(self._new_binding(), recorded)
        self._noted = False
        return self._tail

    def _files(self) -> list[Path]:
        if not self.path.is_dir():
            _refuse_what_does_not_grow(self.path)
            return [self.path]
        if (self.path / FILE_NAME).is_file():
            _refuse_what_does_not_grow(self.path / FILE_NAME)
        return tensorboard.event_files(self.path)

    def _in_trouble(self, message: str) -> None:
        if message != self._trouble:
            self._trouble = message
            self._say(message)


def _refuse_what_does_not_grow(path: Path) -> None:
    path.stat()  # raises if it is not there
    if not path.is_file():
        raise SourceError(f"{path} is not a file; save what it gives to one first")
    if is_journal(path):
        raise SourceError(f"{path} is a journal of klarm: its run is watched already")
    if path.name == document.TRAINER_STATE or (
        document.looks_like_one(path) and document.read(path) is not None
    ):
        raise SourceError(
            f"{path} is written as a whole and cannot be followed; klarm replay reads it"
        )
