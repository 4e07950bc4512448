"""What klarm says about itself: on stderr and to whoever listens to the logger `klarm`.

`logging.getLogger("klarm")` carries the records, so a program can add handlers of its own or
raise the level. Two things differ from an ordinary logger, because klarm must stay audible in a
program that sets up logging for itself, and must never make training wait:

- `disabled`, the level of other loggers and a missing stderr handler do not silence it. Its own
  level does, and so does `console: false` for stderr.
- It takes none of logging's locks, so a signal handler may speak while a thread holds one. A
  handler that a program added is waited for briefly, then skipped.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator

from klarm.terminal import write_stderr
from klarm.text import clean

# Getting the logger takes logging's lock; speaking must not.
_logger = logging.getLogger("klarm")
_logger.propagate = False  # once: a program that wants the records in its root logger sets it back

_MAX_WAIT_SECONDS = 0.1  # for the lock of a handler that is not ours
_RLOCK = type(threading.RLock())


class Notices:
    """Says news and problems, and repeated ones once.

    `say` and `warn` take one line of text, so either can be handed on as the voice of a part that
    knows nothing of logging. Nothing here raises, and nothing waits for a lock.
    """

    def __init__(self, *, stderr: bool = True, muted: bool = False) -> None:
        """Speak on stderr and to the logger, to the logger alone, or, muted, not at all."""
        self._stderr = stderr
        self._muted = muted
        self._said: set[str] = set()  # topics, or messages that are their own
        self._repeats: dict[str, int] = {}  # by topic, how often it was not said again
        if stderr and not muted:
            _attach()

    def say(self, message: str) -> None:
        """Say what happens: a record of level INFO."""
        self._speak(logging.INFO, message)

    def warn(self, message: str) -> None:
        """Say what is wrong: a record of level WARNING."""
        self._speak(logging.WARNING, message)

    def say_once(self, message: str, about: str = "") -> None:
        """Say it unless it was said before; messages about one topic count as one."""
        if (about or message) not in self._said:
            self._said.add(about or message)
            self.say(message)

    def warn_once(self, message: str, about: str = "") -> None:
        """Warn unless that was done before; `finish` says how often it would have been."""
        topic = about or message
        if topic in self._said:
            self._repeats[topic] = self._repeats.get(topic, 0) + 1
        else:
            self._said.add(topic)
            self.warn(message)

    def finish(self) -> None:
        """Say how often warnings were not repeated."""
        repeats, self._repeats = self._repeats, {}
        for topic, count in repeats.items():
            times = "once more" if count == 1 else f"{count} more times"
            self.warn(f"happened {times}: {topic}")

    def _speak(self, level: int, message: str) -> None:
        # The level of the logger itself: that of the root logger is the program's.
        if self._muted or level < _logger.level:
            return
        if self._stderr:
            _attach()
        with contextlib.suppress(Exception):  # filters and handlers may be anybody's
            record = _logger.makeRecord(_logger.name, level, __file__, 0, clean(message), (), None)
            if not _logger.filter(record):
                return
            for handler in _handlers():
                if level >= handler.level and (self._stderr or handler is not _on_stderr):
                    _hand_over(handler, record)


class ReportsFailures:
    """Reports once per place what `never_raises` kept away from the training."""

    notices: Notices

    def _failed(self, place: str, message: str) -> None:
        self.notices.warn_once(message, about=place)


class _StderrHandler(logging.Handler):
    """Prints a record as `klarm: message`, without a lock."""

    def createLock(self) -> None:  # noqa: N802
        self.lock = None

    def handle(self, record: logging.LogRecord) -> bool:
        if not self.filter(record):
            return False
        self.emit(record)
        return True

    def emit(self, record: logging.LogRecord) -> None:
        write_stderr(f"klarm: {record.getMessage()}")


_on_stderr = _StderrHandler()


def _attach() -> None:
    """Have the records on stderr, again if somebody removed the handler."""
    if _on_stderr not in _logger.handlers:
        _logger.handlers.append(_on_stderr)  # addHandler would take a lock


def _handlers() -> Iterator[logging.Handler]:
    logger: logging.Logger | None = _logger
    while logger is not None:
        yield from tuple(logger.handlers)
        logger = logger.parent if logger.propagate else None


def _hand_over(handler: logging.Handler, record: logging.LogRecord) -> None:
    """Give a handler a record, unless its lock is held for longer than training may wait."""
    lock = handler.lock
    if not isinstance(lock, _RLOCK):  # another kind may not be taken twice
        handler.handle(record)
    elif lock.acquire(timeout=_MAX_WAIT_SECONDS):
        try:
            handler.handle(record)
        finally:
            lock.release()
