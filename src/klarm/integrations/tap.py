"""Listens to the calls of a method of a foreign class, without changing what it does."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from klarm.boundary import never_raises
from klarm.notices import Notices, ReportsFailures
from klarm.settings import ConfigError

_taps: dict[tuple[type, str], _Tap] = {}


def tap(owner: type, method: str, hear: Callable[..., object]) -> None:
    """Call `hear` with the arguments of every call of a method, after the method has returned.

    What the method returns or raises does not change, and failures of `hear` are caught, except for
    an invalid configuration when a run starts. A later call of `tap` replaces `hear`.
    """
    if (owner, method) in _taps:
        _taps[owner, method].hear = hear
    else:
        _taps[owner, method] = made = _Tap(hear)
        setattr(owner, method, made.around(getattr(owner, method)))


class _Tap(ReportsFailures):
    def __init__(self, hear: Callable[..., object]) -> None:
        self.hear = hear
        self.notices = Notices()

    def around(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def method(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            mistake = self._pass_on(args, kwargs)
            if mistake is not None:
                raise mistake
            return result

        return method

    @never_raises(lambda: None)
    def _pass_on(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ConfigError | None:
        try:
            self.hear(*args, **kwargs)
        except ConfigError as error:
            return error
        return None
