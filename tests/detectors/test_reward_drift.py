"""Reward drift: which moves of reward are learning, and which are not."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import over
from klarm.cli.demo import read_recording
from klarm.detectors import RewardDriftDetector
from klarm.metrics.binding import Binding
from klarm.types import Alert

Row = dict[str, float]


def feed(detector: RewardDriftDetector, rows: list[Row]) -> list[Alert]:
    alerts = (detector.update(step, row) for step, row in enumerate(rows))
    return [alert for alert in alerts if alert is not None]


def run(then: Callable[[float], Row], seed: int = 0, steps: int = 200) -> list[Row]:
    """Return 100 level steps, then others as `then` gives them for 0 up to 1, all with noise."""
    rng = random.Random(seed)
    start = {"reward": 0.5, "kl": 0.05, "length": 200.0, "entropy": 0.6}
    bases = [start] * 100 + [{**start, **then(i / steps)} for i in range(steps)]
    return [{name: x * rng.lognormvariate(0, 0.1) for name, x in base.items()} for base in bases]


def level(_: float) -> Row:
    return {}


def decaying(part: float) -> Row:
    return {"reward": 0.5 - 0.4 * part, "kl": 0.05 + 0.5 * part}


@pytest.mark.parametrize(
    ("then", "words", "first"),
    [
        (decaying, "Reward fell from .* while KL rose from ", 174),
        (
            lambda part: {"reward": 0.5 - 0.4 * part, "kl_old": 0.01 + 0.2 * part},
            "Reward fell from .* while the KL of updates rose from ",
            199,
        ),
        (
            lambda part: {"reward": 0.5 + 2 * part, "length": 200 * 40**part},
            "Reward rose from .* while length grew from ",
            174,
        ),
        (
            lambda part: {"reward": 0.5 + 2 * part, "entropy": 0.6 / 40**part},
            "Reward rose from .* while entropy fell from ",
            174,
        ),
    ],
)
def test_each_drift_raises_an_alert_at_the_end_of_a_block(
    then: Callable[[float], Row], words: str, first: int
) -> None:
    """A decisive warning, since the drift has lasted by then."""
    alert = feed(RewardDriftDetector(), run(then))[0]
    assert re.match(words, alert.message)
    assert alert.message.endswith(f"25 rows up to step {first - 75} and up to step {first}).")
    assert (alert.step, alert.severity, alert.decisive) == (first, "warning", True)


@over(
    "then",
    [
        level,
        lambda part: {"reward": 0.5 + 2 * part},
        lambda part: {"reward": 0.5 + 2 * part, "kl": 0.05 + part, "entropy": 0.6 - 0.3 * part},
        lambda part: {"reward": 0.5 + 2 * part, "length": 200 - 100 * part},
        lambda part: {"reward": 0.5 + 2 * part, "length": 200 + 200 * part},
        lambda part: {"reward": 0.5 - 0.4 * part},
        lambda part: {"kl": 0.05 + part},
        lambda part: {"entropy": 0.6 / 40**part, "length": 200 * 40**part},
    ],
)
@over("seed", range(5))
def test_healthy_movements_are_silent(then: Callable[[float], Row], seed: int) -> None:
    """Learning with the KL, the length and the entropy that go with it; harder prompts."""
    assert feed(RewardDriftDetector(), run(then, seed)) == []


def test_a_flat_noisy_run_is_silent_for_a_long_time() -> None:
    """Blocks differ by chance, but not that far and not both."""
    rng = random.Random(3)
    rows = [
        {"reward": rng.gauss(0, 1), "kl": rng.lognormvariate(-3, 1), "entropy": rng.random()}
        for _ in range(5_000)
    ]
    assert feed(RewardDriftDetector(), rows) == []


def test_a_spike_or_a_dip_within_a_block_moves_nothing() -> None:
    """Medians do not see it."""
    rows = run(level)
    rows[180] |= {"reward": -1e9, "kl": 1e9}
    assert feed(RewardDriftDetector(), rows) == []


def test_the_result_of_a_check_holds_until_the_next() -> None:
    """So an incident does not flap within a block."""
    alerts = feed(RewardDriftDetector(), run(decaying))
    assert [alert.step for alert in alerts] == list(range(174, 300))


def test_it_ends_when_the_drift_does() -> None:
    """Two blocks at a new level are no move, even if the level is bad."""
    rows = run(lambda part: decaying(min(2 * part, 1.0)), steps=400)
    alerts = feed(RewardDriftDetector(), rows)
    assert alerts[0].step == 174
    assert 300 <= alerts[-1].step < 400


def test_a_metric_that_is_logged_too_rarely_does_not_count() -> None:
    """At fewer than half of the steps of a block."""
    rows = run(decaying)
    for step, row in enumerate(rows):
        if step % 3 == 1:
            row["kl"] = math.nan
        elif step % 3 == 2:
            del row["kl"]
    assert feed(RewardDriftDetector(), rows) == []


def test_the_score_exceeds_its_threshold_at_an_alert() -> None:
    """In units of noise, and only of a drift that counts."""
    detector = RewardDriftDetector()
    for step, row in enumerate(run(decaying)):
        assert (detector.update(step, row) is not None) == (detector.score > detector.noise_units)


def test_only_the_failing_recordings_raise_alerts() -> None:
    """Healthy is silent; in the other two the reward is gamed while entropy collapses."""

    def first(recording: str) -> tuple[int, str] | None:
        detector, binding = RewardDriftDetector(), Binding()
        for row in read_recording(recording):
            if alert := detector.update(row["step"], binding.read(row)):
                return alert.step, re.sub(r" from \S+ to \S+| \(.*", "", alert.message)
        return None

    assert first("healthy") is None
    assert first("exploding") == (200, "Reward rose while entropy fell")
    assert first("drifting") == (250, "Reward rose while entropy fell")


any_row = st.fixed_dictionaries(
    {"reward": st.floats()},
    optional={name: st.floats() for name in ("kl", "kl_old", "length", "entropy")},
)


@given(st.lists(any_row, max_size=80))
def test_any_rows_are_accepted_and_scored(rows: list[Row]) -> None:
    """Whatever the companions of reward hold, it never raises and the score is never NaN."""
    detector = RewardDriftDetector(drift_steps=20, warmup_steps=0)
    for step, row in enumerate(rows):
        detector.update(step, row)
        assert not math.isnan(detector.score)


def test_a_rise_that_has_turned_back_raises_no_alert() -> None:
    """A block's median is still high when a mean over many episodes has begun to fall."""
    rewards = [20.0 + 0.7 * step for step in range(115)] + [100.0 - 8 * step for step in range(10)]
    entropy = [0.6 - 0.001 * step for step in range(100)] + [0.01] * 25
    rows = [{"reward": r, "entropy": e} for r, e in zip(rewards, entropy, strict=True)]
    assert feed(RewardDriftDetector(), rows) == []
    rows[115:] = [{"reward": 100.0, "entropy": 0.01}] * 10
    (alert,) = feed(RewardDriftDetector(), rows)
    assert " while entropy fell from " in alert.message
