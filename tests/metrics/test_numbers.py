"""Numbers of every type that trainers log."""

from __future__ import annotations

import decimal
import math

import numpy as np

from cases import over
from klarm.metrics.numbers import to_number


class TensorLike:
    """A scalar as torch gives it: a number only through `item`."""

    def __init__(self, *values: float) -> None:
        self.values = values

    def item(self) -> float:
        if len(self.values) != 1:
            raise RuntimeError("a Tensor with more than one element cannot be converted")
        return self.values[0]


class Hostile:
    """An object that fails in its own way."""

    def __float__(self) -> float:
        raise ArithmeticError("no")


@over(
    "logged, number",
    [
        (0.5, 0.5),
        (3, 3.0),
        (np.float32(0.5), 0.5),
        (np.float64("inf"), math.inf),
        (np.int64(7), 7.0),
        (np.array(0.25), 0.25),
        (np.array([0.25]), 0.25),
        (TensorLike(0.125), 0.125),
        ("0.5", 0.5),
        (" 1e-3\n", 0.001),
        ("-Infinity", -math.inf),
        (decimal.Decimal("0.5"), 0.5),
        (10**400, math.inf),
        (-(10**400), -math.inf),
    ],
)
def test_numbers_of_every_type_are_accepted(logged: object, number: float) -> None:
    """Python's, numpy's, torch's, and text."""
    taken = to_number(logged)
    assert taken == number
    assert type(taken) is float


def test_text_that_says_nan_is_nan() -> None:
    """Journals and logs spell it so."""
    for text in ("NaN", "nan"):
        number = to_number(text)
        assert number is not None
        assert math.isnan(number)


@over(
    "logged",
    [
        None,
        True,
        np.bool_(True),
        "n/a",
        "",
        b"1.0",
        [1.0],
        (1.0,),
        {"a": 1},
        1j,
        np.array([1.0, 2.0]),
        np.array([]),
        TensorLike(1.0, 2.0),
        Hostile(),
        object(),
        float,
    ],
)
def test_what_is_not_one_number_is_left_out(logged: object) -> None:
    """Without an error."""
    assert to_number(logged) is None
