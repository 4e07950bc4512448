"""Taps: listening to a foreign method does not change what it does."""

from __future__ import annotations

import pytest

import klarm
from klarm import boundary
from klarm.integrations.tap import tap


class Foreign:
    """A stand-in for a class of a framework."""

    def double(self, number: int, *, offset: int = 0) -> int:
        """Double a number."""
        return 2 * number + offset


def test_the_listener_is_called_after_the_method_whose_result_is_unchanged() -> None:
    """Arguments, result and name are unchanged; failed calls are not reported to the listener."""

    class Own(Foreign):
        pass

    heard: list[tuple[object, ...]] = []
    tap(Own, "double", lambda *args, **kwargs: heard.append((*args[1:], kwargs)))
    assert Own().double(2, offset=1) == 5
    with pytest.raises(TypeError):
        Own().double(None)  # type: ignore[arg-type]
    assert heard == [(2, {"offset": 1})]
    assert Own.double.__doc__ == Foreign.double.__doc__
    assert Foreign().double(2) == 4
    assert len(heard) == 1


def test_a_second_tap_replaces_the_first() -> None:
    """Otherwise running a notebook cell again would log everything twice."""

    class Own(Foreign):
        pass

    first: list[object] = []
    second: list[object] = []
    tap(Own, "double", lambda *args: first.append(args))
    tap(Own, "double", lambda *args: second.append(args))
    Own().double(1)
    assert (len(first), len(second)) == (0, 1)


def test_a_failure_of_the_listener_is_caught_and_reported_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The framework gets its result; only an invalid configuration is raised."""

    class Own(Foreign):
        pass

    def broken(*_: object) -> None:
        raise OSError("nobody there")

    def misconfigured(*_: object) -> None:
        raise klarm.ConfigError("sigma is unknown")

    monkeypatch.setattr(boundary, "raise_failures", False)
    tap(Own, "double", broken)
    assert [Own().double(1), Own().double(2)] == [2, 4]
    assert capsys.readouterr().err.count("nobody there") == 1
    tap(Own, "double", misconfigured)
    with pytest.raises(klarm.ConfigError, match="sigma is unknown"):
        Own().double(1)
