"""What trainers log, taken for what it is."""

from __future__ import annotations

import decimal
import math

import numpy as np
import pytest

from klarm.metrics import METRICS, rank, to_number


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


@pytest.mark.parametrize(
    ("logged", "number"),
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
def test_numbers_in_every_dress_are_taken(logged: object, number: float) -> None:
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


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("kl", "kl"),
        ("train/kl", "kl"),
        ("objective/kl", "kl"),
        ("actor/kl_loss", "kl"),
        ("train/approx_kl", "kl_old"),
        ("actor/ppo_kl", "kl_old"),
        ("train/vllm_kl", "kl_rollout"),
        ("train/kl_penalty", "kl"),
        ("completions/mean_length", "length"),
        ("frac_reward_zero_std", "zero_std_fraction"),
    ],
)
def test_framework_keys_are_known_by_what_they_mean(key: str, name: str) -> None:
    """KL to the reference, to the old policy and to the sampler are three things."""
    known = rank(key)
    assert known is not None
    assert known[0] == name


def test_a_key_that_is_clear_only_with_its_prefix_is_not_known_without() -> None:
    """NeMo-RL's `train/kl_penalty` is a KL; elsewhere `kl_penalty` is a coefficient."""
    assert rank("kl_penalty") is None
    assert rank("kl_loss") is None


def test_no_key_belongs_to_two_metrics() -> None:
    """Or it would depend on their order what a run is judged by."""
    keys = [key for metric in METRICS.values() for key in (metric.name, *metric.keys)]
    assert len(keys) == len(set(keys))
