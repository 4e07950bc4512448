"""How sentences are filled with facts, in wording/template.py."""

from __future__ import annotations

import pytest

from cases import over
from klarm.wording import MissingFactError, fill


@over(
    "field, value, expected",
    [
        ("{x}", 0.123456, "0.123"),
        ("{x:4}", 0.123456, "0.1235"),
        ("{x:g}", 4.5, "4.5"),
        ("{x:d}", 1_234_567.0, "1234567"),
        ("{x:%}", 0.625, "62%"),
        ("{x}", "entropy", "entropy"),
        ("{x:%}", "Infinity", "Infinity"),
        ("{x}", float("nan"), "NaN"),
    ],
)
def test_a_fact_is_written_as_its_field_says(field: str, value: float | str, expected: str) -> None:
    """Three digits by default."""
    assert fill(field, {"x": value}) == expected


def test_a_value_just_above_its_limit_does_not_look_equal_to_it() -> None:
    """It gets more digits."""
    assert fill("{x:!limit}", {"x": 1.0001, "limit": 1.0}) == "1.0001"
    assert fill("{x:!limit}", {"x": -1.0001, "limit": 1.0}) == "-1.0001"
    assert fill("{x:!limit}", {"x": 1.2001, "limit": 1.0}) == "1.2"


def test_a_part_in_brackets_is_left_out_without_its_facts() -> None:
    """Anywhere else a fact must be there."""
    assert fill("It fell[ by {x}σ].", {}) == "It fell."
    assert fill("It fell[ by {x}σ].", {"x": 2.0}) == "It fell by 2σ."
    with pytest.raises(MissingFactError, match="x"):
        fill("It fell by {x}.", {})
