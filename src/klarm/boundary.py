"""The guard that keeps klarm's own failures away from the training that it watches."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from klarm.text import clean_line

# Tests set this, so that a failure that the guard would catch fails the test.
raise_failures = False
_MAX_DETAIL = 500

_Method = TypeVar("_Method", bound=Callable[..., Any])


def never_raises(fallback: Callable[[], object]) -> Callable[[_Method], _Method]:
    """Return a decorator for methods that must never raise.

    If the method fails, `_failed` of its object is called with the place of the failure and one
    line about it, and the caller gets the fallback. `klarm.notices.ReportsFailures` has a
    `_failed` that reports each place once.
    """

    def decorate(method: _Method) -> _Method:
        @functools.wraps(method)
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                return method(self, *args, **kwargs)
            except Exception as error:  # noqa: BLE001  # the guard
                report_failure(self, method.__name__, error)
                return fallback()

        return cast(_Method, call)

    return decorate


def report_failure(of: Any, method: str, error: Exception) -> None:
    """Report that a method has failed, for methods that catch everything by themselves.

    Passing on any arguments takes `never_raises` as long as a detector takes to judge a value, so
    what is called at every step does not use it.
    """
    if raise_failures:
        raise error
    with contextlib.suppress(Exception):  # the report itself must not raise either
        of._failed(*describe(method, error))


def describe(method: str, error: Exception) -> tuple[str, str]:
    """Return the place of a failure and one line about it."""
    import traceback

    last = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{method} ({last.name}, line {last.lineno}): {type(error).__name__}"
    try:
        detail = clean_line(str(error), _MAX_DETAIL)
    except Exception:  # noqa: BLE001
        detail = "its message cannot be read"
    return place, f"internal error in {place}: {detail}. Training continues; please report this"
