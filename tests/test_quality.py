"""The benchmark of detection quality: what it is measured with can be trusted."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest

from cases import over
from quality import oracle
from quality.generators import FAILURES, HEALTHY, SEEDS, generate
from quality.scoring import (
    delay,
    episode_starts,
    found_share,
    mean_by_group,
    median,
    ninetieth,
    share,
    threshold_at,
)


@over("kind", [HEALTHY, *FAILURES])
def test_a_seed_always_makes_the_same_run(kind: str) -> None:
    """And another seed another one."""
    first, again, other = generate(kind, 7), generate(kind, 7), generate(kind, 8)
    np.testing.assert_array_equal(first.kl, again.kl)
    np.testing.assert_array_equal(first.steps, again.steps)
    assert (first.onset, first.family) == (again.onset, again.family)
    assert not np.array_equal(first.kl, other.kl)


def test_no_seed_is_for_two_purposes() -> None:
    """What a detector was tuned on is never reported."""
    ranges = list(SEEDS.values())
    assert set(SEEDS) == {"tuning", "calibration", "reporting"}
    for number, one in enumerate(ranges):
        for other in ranges[number + 1 :]:
            assert one.stop <= other.start or other.stop <= one.start


def test_healthy_runs_are_finite_and_as_long_as_promised() -> None:
    """500 to 5,000 rows, steps that only rise, no level that would be a failure."""
    for seed in range(60):
        run = generate(HEALTHY, seed)
        assert run.onset is None
        assert 500 <= len(run.kl) <= 5_000
        assert np.isfinite(run.kl).all()
        assert (np.diff(run.steps) > 0).all()
        assert np.median(np.abs(run.kl)) < 1.0


@pytest.mark.parametrize(
    ("kind", "ratio"), [("explosion", 300.0), ("jump", 2.5), ("step", 1.2), ("drift", 2.0)]
)
def test_a_failure_begins_at_its_onset(kind: str, ratio: float) -> None:
    """Nothing before it is changed, and KL ends where the failure takes it."""
    ratios = []
    for seed in range(40):
        run = generate(kind, seed)
        assert 100 <= run.onset <= 1_500
        ratios.append(np.exp(run.residual[-50:].mean() - run.residual[: run.onset].mean()))
    assert np.median(ratios) > ratio


def test_values_that_are_not_finite_begin_exactly_at_the_onset() -> None:
    """The first broken row is the onset."""
    for seed in range(20):
        run = generate("not_finite", seed)
        assert np.flatnonzero(~np.isfinite(run.kl))[0] == run.onset


def alarm_at(*rows: int, length: int = 200) -> np.ndarray:
    alarm = np.zeros(length, dtype=bool)
    alarm[list(rows)] = True
    return alarm


def test_an_episode_needs_ten_quiet_rows_before_it() -> None:
    """Alarms closer together are one episode."""
    assert episode_starts(alarm_at()).tolist() == []
    assert episode_starts(alarm_at(0, 1, 11, 22, 32)).tolist() == [0, 22]
    assert episode_starts(alarm_at(3, 13, 24)).tolist() == [3, 24]


def test_a_delay_counts_the_failing_rows_seen() -> None:
    """An alarm in the first failing row has a delay of one row."""
    assert delay(alarm_at(100), onset=100) == 1
    assert delay(alarm_at(20, 106, 107), onset=100) == 7


def test_an_alarm_that_was_ringing_before_finds_nothing() -> None:
    """Only an episode that begins after the onset does."""
    assert delay(alarm_at(*range(95, 200)), onset=100) == inf
    assert delay(alarm_at(95, 99, 105, 130), onset=100) == 31
    assert delay(alarm_at(50), onset=100) == inf


def test_a_failure_not_found_counts_in_the_delays() -> None:
    """Else who finds only what is easy would look quick."""
    delays = [1.0, 2.0, inf, inf, inf]
    assert median(delays).value == inf
    assert ninetieth([*range(1, 10), inf]) == 9
    assert found_share(delays).value == pytest.approx(0.4)


def test_intervals_are_wilsons_and_hold_the_value() -> None:
    """Against published values: 0 of 10 and 5 of 10."""
    assert share(0, 10).high == pytest.approx(0.2775, abs=1e-3)
    assert share(5, 10).low == pytest.approx(0.2366, abs=1e-3)
    centre = median(list(range(101)))
    assert centre.low < centre.value == 50 < centre.high


def test_every_repository_weighs_the_same() -> None:
    """Three runs of one and one of another."""
    assert mean_by_group([1, 1, 1, 0], ["a", "a", "a", "b"]).value == 0.5
    assert mean_by_group([0, 0], ["a", "b"]).high > 0.5


def test_a_threshold_lets_the_asked_share_of_healthy_runs_pass() -> None:
    """Four of a hundred."""
    threshold = threshold_at(list(range(100)), 0.04)
    assert sum(score > threshold for score in range(100)) == 4


def test_the_oracle_finds_an_explosion_soon_after_its_onset() -> None:
    """Far above what it scores before."""
    runs = [(generate("explosion", seed), seed) for seed in range(30)]
    for run, seed in runs:
        if oracle.knows(run):
            score = oracle.scores(run, seed)
            assert score[run.onset + 2 * int(run.doubling) :].max() > score[: run.onset].max()
