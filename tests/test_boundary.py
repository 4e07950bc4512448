"""The boundary: a failure of klarm's own is said and stays away from training."""

from __future__ import annotations

import pytest

from klarm import boundary
from klarm.boundary import never_raises


class MuteError(Exception):
    """One whose message cannot be read."""

    def __str__(self) -> str:
        raise OSError


class Owner:
    """What guards a method of its own."""

    def __init__(self) -> None:
        self.said: list[tuple[str, str]] = []

    def _failed(self, place: str, message: str) -> None:
        self.said.append((place, message))

    @never_raises(list)
    def work(self, error: BaseException | None = None) -> list[int]:
        """Do it."""
        if error is not None:
            raise error
        return [1]


@pytest.fixture(autouse=True)
def guarded(failures_raise: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boundary, "raise_failures", False)


def test_a_failure_is_said_and_the_caller_gets_the_fallback() -> None:
    """With the place, so that it can be said once for each."""
    owner = Owner()
    assert (owner.work(), owner.work(ValueError("broken"))) == ([1], [])
    ((place, message),) = owner.said
    assert place.startswith("work (work, line ")
    assert place.endswith("): ValueError")
    assert message == f"internal error in {place}: broken. Training continues; please report this"


def test_not_even_saying_so_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the message cannot be read or nobody takes it."""
    owner = Owner()
    assert owner.work(MuteError()) == []
    assert "its message cannot be read" in owner.said[0][1]
    monkeypatch.setattr(owner, "_failed", lambda *_: 1 / 0)
    assert owner.work(ValueError()) == []


def test_what_ends_a_process_is_no_failure() -> None:
    """Ctrl-C passes through."""
    with pytest.raises(KeyboardInterrupt):
        Owner().work(KeyboardInterrupt())


def test_tests_see_what_the_guard_would_swallow(monkeypatch: pytest.MonkeyPatch) -> None:
    """So a bug fails the suite."""
    monkeypatch.setattr(boundary, "raise_failures", True)
    with pytest.raises(ValueError, match="broken"):
        Owner().work(ValueError("broken"))
