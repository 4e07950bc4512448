"""Numbers as people read them, at the edges that the doctests leave out."""

from __future__ import annotations

import math

import pytest

from cases import over
from klarm.wording import number
from klarm.wording.numbers import counted, factor, share, times


@over(
    "value, text",
    [
        (0.0, "0"),
        (1000.0, "1000"),
        (999_999.0, "999999"),
        (1e6, "1e6"),
        (1.5e-7, "1.5e-7"),
        (-0.12345, "-0.123"),
        (math.inf, "Infinity"),
        ("NaN", "NaN"),
    ],
)
def test_a_value_has_three_digits_and_an_exponent_only_where_it_is_shorter(
    value: float | str, text: str
) -> None:
    """What is not finite is spelt as in the journal."""
    assert number(value) == text


def test_one_thing_is_singular_and_none_is_plural() -> None:
    """As in English."""
    assert [counted(count, "step") for count in (0, 1, 2)] == ["0 steps", "1 step", "2 steps"]


@pytest.mark.parametrize(
    ("value", "text"), [(1.04, ""), (1.06, "1.1 times"), (9.96, "10 times"), (10.4, "10 times")]
)
def test_a_ratio_that_rounds_to_one_is_empty(value: float, text: str) -> None:
    """Two digits below ten, whole numbers above."""
    assert times(value) == text


@over(
    "divisor, text",
    [
        (1.4, ""),
        (3.0, "a third of"),
        (4.0, "a quarter of"),
        (11.0, "an 11th of"),
        (21.0, "a 21st of"),
        (82.0, "an 82nd of"),
        (100.0, "a 100th of"),
        (101.0, "less than a 100th of"),
    ],
)
def test_a_share_has_the_right_article_and_ending(divisor: float, text: str) -> None:
    """An eighth, an eleventh, a twenty-first."""
    assert share(divisor) == text


def test_a_factor_has_two_digits() -> None:
    """Also where it is smaller than one."""
    assert [factor(value) for value in (0.004567, 1.0, 99.9)] == ["×0.0046", "×1", "×100"]
