"""How a training ended: by itself, by an error, or because somebody interrupted it.

Python keeps the exception that is being handled and the last one that nobody handled; both are
looked at when the run ends. It keeps nothing of `sys.exit(1)`, so calls of that function are noted
while a run is under way, and passed on.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable
from typing import Literal, NamedTuple, NoReturn

from klarm.text import clean_line
from klarm.types import Reason

Outcome = Literal["", "crashed", "interrupted", "stopped", "killed", "detached"]

# Why an incident ended that was open. It stays open if only the watching ended.
REASONS: dict[Outcome, Reason | None] = {
    "": "finished",
    "crashed": "crashed",
    "interrupted": "interrupted",
    "stopped": "interrupted",
    "killed": "crashed",  # recorded later, by whoever noticed it
    "detached": None,
}
_CUT_SHORT = ("crashed", "interrupted", "stopped", "killed")
_VERBS = {
    "": "ended",
    "interrupted": "was interrupted",
    "killed": "was killed",
    "detached": "is no longer followed",
}
_MAX_ERROR = 300  # characters
# They end a loop, not a run.
_NO_ERRORS = (StopIteration, StopAsyncIteration, GeneratorExit)


class Ending(NamedTuple):
    """How a run ended: well, or by which error."""

    outcome: Outcome = ""
    error: str = ""
    once: bool = False  # whether klarm was to read only what was there already

    @classmethod
    def recorded(cls, outcome: str, error: str) -> Ending:
        """Return what a journal says; an outcome that a later version may know is a finish."""
        return next((cls(known, error) for known in REASONS if known == outcome), cls())

    def in_words(self, run: str, after: str) -> str:
        """Return the beginning of a sentence.

        >>> Ending("crashed", "RuntimeError: out of memory").in_words("a", "12 rows")
        'run a crashed after 12 rows (RuntimeError: out of memory)'
        >>> Ending().in_words("a", "12 rows")
        'run a ended after 12 rows'
        """
        verb = _VERBS.get(self.outcome, self.outcome)
        said = f"run {run} {verb} after {after}"
        if self.error:
            return f"{said} ({self.error})"
        return f"{said}, before the end of training" if self.outcome in _CUT_SHORT else said


class EndWatch:
    """Knows what had failed before a run began, and whether its training is under way."""

    def __init__(self, steps: Callable[[], int] = lambda: 0) -> None:
        """Watch from now on. `steps` returns how many were logged."""
        # By identity: the exceptions themselves would keep alive all that their frames hold.
        self._earlier = {id(_handled()), id(_unhandled())}
        self._trained_by: tuple[str, ...] = ()  # the packages that train now
        self._steps = steps
        self._exit: tuple[int, Ending] | None = None  # the last call of `sys.exit`, at which step
        self._exit_before = sys.exit
        self._exit_here = self._noting_exit  # one object, to know it again
        sys.exit = self._exit_here

    def training_began(self, *packages: str) -> None:
        """Note that these packages train now, and will tell when they are done."""
        self._trained_by = packages

    def training_ended(self) -> None:
        """Note that training is over."""
        self._trained_by = ()

    def look(self) -> Ending:
        """Return how the run ends that ends now, and stop watching."""
        if sys.exit == self._exit_here:  # nobody else has put a function there since
            sys.exit = self._exit_before
        handled, unhandled = _handled(), _unhandled()
        if self._is_the_end(handled):
            return ending_by(handled)
        if self._is_the_end(unhandled) and (
            not _is_interactive() or _came_through(unhandled, self._trained_by)
        ):
            return ending_by(unhandled)
        if self._exit is not None and not _is_interactive():
            step, ending = self._exit
            if step == self._steps():  # else the script handled it and trained on
                return ending
        return Ending("stopped" if self._trained_by else "")

    def _noting_exit(self, *code: object) -> NoReturn:
        with contextlib.suppress(Exception):  # whatever happens here, the process must exit
            if threading.current_thread() is threading.main_thread():  # others end only themselves
                error = SystemExit(*code)
                handled = _handled()
                error.__context__ = handled if self._is_the_end(handled) else None
                ending = ending_by(error)
                self._exit = (self._steps(), ending) if ending.outcome else None
        self._exit_before(*code)  # type: ignore[arg-type]

    def _is_the_end(self, error: BaseException | None) -> bool:
        return not (error is None or id(error) in self._earlier or isinstance(error, _NO_ERRORS))


def ending_by(error: BaseException | None) -> Ending:
    """Return how a run ends that an exception leaves."""
    if error is None or isinstance(error, _NO_ERRORS):
        return Ending()
    if isinstance(error, SystemExit):
        return _ending_by_exit(error)
    # What is no Exception asks to stop: Ctrl-C, a task that is cancelled.
    return Ending("crashed" if isinstance(error, Exception) else "interrupted", _text(error))


def _ending_by_exit(error: SystemExit) -> Ending:
    """Return how a run ends that exits: with a status other than 0 because of an error, perhaps.

    Hydra, for example, prints the exception of a training and exits with 1.
    """
    if error.code is None or (isinstance(error.code, int) and error.code == 0):
        return Ending()
    why = error.__cause__ or error.__context__
    if isinstance(error.code, int) and why is not None and not isinstance(why, SystemExit):
        ending = ending_by(why)
        if ending.outcome:
            return ending
    return Ending("stopped", _text(error))


def _text(error: BaseException) -> str:
    name = type(error).__name__
    try:
        text = str(error)
    except Exception:  # noqa: BLE001  # the error may be of any class
        text = ""
    return clean_line(f"{name}: {text}" if text else name, _MAX_ERROR)


def _handled() -> BaseException | None:
    return sys.exc_info()[1]


def _unhandled() -> BaseException | None:
    return getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)


def _is_interactive() -> bool:
    """Return whether errors come and go, as in a notebook."""
    return hasattr(sys, "ps1")


def _came_through(error: BaseException | None, packages: tuple[str, ...]) -> bool:
    traceback = None if error is None else error.__traceback__
    while traceback is not None:
        module = traceback.tb_frame.f_globals.get("__name__") or ""
        if str(module).partition(".")[0] in packages:
            return True
        traceback = traceback.tb_next
    return False
