"""The rewards of single samples, and all that may be logged in their place."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from diptest import diptest
from hypothesis import given
from hypothesis import strategies as st

from cases import over
from klarm.metrics.samples import STATISTICS, sample_statistics


def one_group(count: int) -> list[float]:
    rng = random.Random(count)
    return [rng.gauss(0.5, 0.2) for _ in range(count)]


def two_groups(count: int) -> list[float]:
    rng = random.Random(count)
    return [rng.gauss(rng.choice([0.0, 1.0]), 0.08) for _ in range(count)]


def statistics(samples: object) -> dict[str, float]:
    found = sample_statistics(samples)
    assert found is not None
    return found


class OneDimension:
    """A tensor as torch has it: sliced, then made a list of Python numbers."""

    ndim = 1

    def __init__(self, values: list[float]) -> None:
        self.values = values

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, places: slice) -> OneDimension:
        return type(self)(self.values[places])

    def tolist(self) -> list[float]:
        return self.values


@pytest.mark.parametrize("count", [10, 64, 128])
def test_the_statistics_agree_with_other_libraries(count: int) -> None:
    """Mean, the deviation as torch has it (of a sample), and what the reference package decides."""
    for rewards in (one_group(count), two_groups(count)):
        found = statistics(rewards)
        assert found["mean"] == pytest.approx(np.mean(rewards))
        assert found["std"] == pytest.approx(np.std(rewards, ddof=1))
        assert (found["dip_p"] < 0.05) == (diptest(np.array(rewards))[1] < 0.05)


def test_every_sequence_type_is_accepted() -> None:
    """Lists, tuples, arrays, tensors, and lists of numpy's own numbers say the same."""
    rewards = one_group(64)
    expected = statistics(rewards)
    array = np.array(rewards)
    for dress in (tuple(rewards), array, OneDimension(rewards), list(array), list(map(str, array))):
        assert statistics(dress) == expected


def test_booleans_count_as_one_and_zero() -> None:
    """Booleans too; a None is a sample without a reward. Grades are always piles: no p."""
    assert (
        statistics([True, False, True, True])
        == statistics([1, 0, 1, 1])
        == statistics(np.array([True, False, True, True]))
    )
    assert statistics([True, None, False, True, True, None]) == {"mean": 0.75, "std": 0.5}
    assert "dip_p" not in statistics([0.0, 1.0] * 32)
    assert "dip_p" not in statistics([0.0, 0.1, 0.2, 0.3, 1.0, 1.1, 1.2, 1.3, 1.4] * 9)
    assert "dip_p" in statistics([i / 9 for i in range(10)])


def test_one_sample_has_no_spread_and_no_samples_have_no_statistics() -> None:
    """Neither is an error."""
    assert statistics([0.5]) == statistics(np.array([0.5])) == {"mean": 0.5}
    assert statistics([]) == statistics([None]) == statistics(np.array([])) == {}


@pytest.mark.parametrize("broken", [math.nan, math.inf, -math.inf, 10**400])
def test_a_value_that_is_not_finite_shows_in_mean_and_deviation(broken: float) -> None:
    """So that it is an alarm as from the trainer itself; the test of the others goes on."""
    rewards = two_groups(64)
    found = statistics([*rewards, broken])
    assert not math.isfinite(found["mean"])
    assert not math.isfinite(found["std"])
    assert found["dip_p"] == statistics(rewards)["dip_p"] < 0.05


def test_more_samples_than_the_limit_give_the_same_result() -> None:
    """Evenly spaced ones are taken; a million, or ten, cost a step little."""
    for count in (129, 513, 5_000, 200_000):
        assert statistics(one_group(count))["dip_p"] > 0.05
        many = statistics(np.array(two_groups(count)))
        assert many["dip_p"] < 0.05
        assert many["mean"] == pytest.approx(0.5, abs=0.1)
        assert many["std"] == pytest.approx(0.5, abs=0.05)
    mostly_equal = [0.0] * 5_000 + one_group(50)
    assert "dip_p" not in statistics(mostly_equal)


class Rude(list[float]):
    """A list that fails in a way of its own."""

    def __len__(self) -> int:
        raise ArithmeticError("no")


class RudeTensor(OneDimension):
    """A tensor that cannot be copied to the CPU."""

    def tolist(self) -> list[float]:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")


class Liar(OneDimension):
    """An object that only looks like a tensor."""

    def tolist(self) -> list[float]:
        return "garbage"  # type: ignore[return-value]


@over(
    "garbage",
    [
        None,
        0.5,
        "0.5",
        b"12",
        ["n/a"] * 10,
        [[0.5], [0.7]],
        [0.5, {"a": 1}],
        [0.5, object()],
        [0.5, 1j],
        [b"1"],
        {0.5, 0.7},
        (x for x in (0.5, 0.7)),
        np.ones((3, 4)),
        np.array(0.5),
        np.array(["a", "b"]),
        Rude([0.5]),
        RudeTensor([0.5]),
        Liar([0.5]),
        object(),
        float,
    ],
)
def test_anything_but_a_flat_list_of_numbers_is_left_out(garbage: object) -> None:
    """Without an error, and as a whole: half a list has another mean."""
    assert sample_statistics(garbage) is None


anything = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary()


@given(st.lists(anything) | st.lists(st.floats(), min_size=10))
def test_any_list_is_accepted(samples: list[object]) -> None:
    """What comes of it are floats, and a p between 0 and 1."""
    found = sample_statistics(samples) or {}
    assert set(found) <= set(STATISTICS)
    assert all(type(value) is float for value in found.values())
    assert 0.0 < found.get("dip_p", 1.0) <= 1.0
