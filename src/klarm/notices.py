"""What klarm says about itself, on stderr and through the logger `klarm`.

Records go to `logging.getLogger("klarm")`, so a program can add its own handlers or raise the
level. Two things differ from an ordinary logger, because klarm must be heard in a program that
configures logging for itself, and must never make training wait:

- `disabled`, the level of other loggers and a missing stderr handler do not silence it. Its own
  level does, and so does `console: false` for stderr.
- It takes none of logging's locks, so a signal handler may use it while a thread holds one. If
  the handler of a program is busy, klarm waits briefly and then skips it.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator

from klarm.terminal import write_stderr
from klarm.text import clean

# This is done once, because getting a logger takes logging's lock.
_logger = logging.getLogger("klarm")
_logger.propagate = False  # set once: a program that wants the records in its root logger resets it

_MAX_WAIT_SECONDS = 0.1  # for the lock of a handler that is not ours
_RLOCK = type(threading.RLock())


class Notices:
    """Reports news and problems, and those that repeat only once.

    `say` and `warn` take one line of text, so either can be passed to a part of klarm that knows
    nothing of logging. Nothing here raises or waits for a lock.
    """

    def __init__(self, *, stderr: bool = True, muted: bool = False) -> None:
        """Report on stderr and to the logger, only to the logger, or, if muted, not at all."""
        self._stderr = stderr
        self._muted = muted
        self._said: set[str] = set()  # topics; a message without one is its own topic
        self._repeats: dict[str, int] = {}  # by topic: how many repetitions were left out
        if stderr and not muted:
            _attach()

    def say(self, message: str) -> None:
        """Report what happens, at level INFO."""
        self._speak(logging.INFO, message)

    def warn(self, message: str) -> None:
        """Report what is wrong, at level WARNING."""
        self._speak(logging.WARNING, message)

    def say_once(self, message: str, about: str = "") -> None:
        """Report a message, unless it or another one about its topic was reported before."""
        if (about or message) not in self._said:
            self._said.add(about or message)
            self.say(message)

    def warn_once(self, message: str, about: str = "") -> None:
        """Warn, unless the same was reported before; `finish` reports how often it happened."""
        topic = about or message
        if topic in self._said:
            self._repeats[topic] = self._repeats.get(topic, 0) + 1
        else:
            self._said.add(topic)
            self.warn(message)

    def finish(self) -> None:
        """Report how often each repeated warning occurred."""
        repeats, self._repeats = self._repeats, {}
        for topic, count in repeats.items():
            times = "once more" if count == 1 else f"{count} more times"
            self.warn(f"{times}: {topic}")

    def _speak(self, level: int, message: str) -> None:
        # The level of this logger only; that of the root logger belongs to the program.
        if self._muted or level < _logger.level:
            return
        if self._stderr:
            _attach()
        with contextlib.suppress(Exception):  # foreign filters and handlers may fail
            record = _logger.makeRecord(_logger.name, level, __file__, 0, clean(message), (), None)
            if not _logger.filter(record):
                return
            for handler in _handlers():
                if level >= handler.level and (self._stderr or handler is not _on_stderr):
                    _hand_over(handler, record)


class ReportsFailures:
    """Reports the failures that `never_raises` keeps away from training, once per place."""

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
    """Add the handler for stderr, and add it again if somebody removed it."""
    if _on_stderr not in _logger.handlers:
        _logger.handlers.append(_on_stderr)  # addHandler would take a lock


def _handlers() -> Iterator[logging.Handler]:
    logger: logging.Logger | None = _logger
    while logger is not None:
        yield from tuple(logger.handlers)
        logger = logger.parent if logger.propagate else None


def _hand_over(handler: logging.Handler, record: logging.LogRecord) -> None:
    """Pass a record to a handler, unless its lock is held for longer than training may wait."""
    lock = handler.lock
    if not isinstance(lock, _RLOCK):  # another kind of lock may not be reentrant
        handler.handle(record)
    elif lock.acquire(timeout=_MAX_WAIT_SECONDS):
        try:
            handler.handle(record)
        finally:
            lock.release()
