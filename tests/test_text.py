"""Text that is safe to keep and to show."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from klarm.text import clean, clean_line, described


@given(st.text(st.characters()))
def test_whatever_comes_in_can_be_encoded_and_commands_no_terminal(text: str) -> None:
    """Tabs and newlines stay where there may be lines, and go where there is one."""
    for cleaned in (clean(text), clean_line(text)):
        cleaned.encode()
        assert not any(c < " " and c not in "\t\n" for c in cleaned)
        assert not any("\x7f" <= c <= "\x9f" for c in cleaned)
    assert len(clean_line(text, 20).splitlines()) <= 1
    assert len(clean_line(text, 20)) <= 20


@given(st.text("abc σ×←…ü漢字👍\n\t"))
def test_what_people_write_stays_as_it_is(text: str) -> None:
    """In any script."""
    assert clean(text) == text


def test_a_value_is_described_without_asking_it() -> None:
    """Its repr may raise, or take a minute."""

    class Talkative(str):
        __slots__ = ()

        def __repr__(self) -> str:
            raise RuntimeError

    assert described(Talkative("x")) == "a Talkative"
    assert described("x" * 10**6) == "'" + "x" * 78 + "…"
    assert described("\x1b[2J") == r"'\x1b[2J'"
    assert described(type("\x1b[2J", (), {})()) == r"a \x1b[2J"
