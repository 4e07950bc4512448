"""entropy_collapse: the steps it alarms at, and the falls that are none of its business."""

from __future__ import annotations

import random

import pytest

from fed_detectors import feed, severities
from klarm.cli.demo import read_recording
from klarm.detectors import EntropyCollapseDetector
from klarm.metrics.binding import Binding
from klarm.types import Alert


def play(recording: str) -> list[Alert]:
    detector, binding = EntropyCollapseDetector(), Binding()
    found = [detector.update(row["step"], binding.read(row)) for row in read_recording(recording)]
    return [alert for alert in found if alert is not None]


def noisy(levels: list[float], noise: float = 0.15) -> list[float]:
    rng = random.Random(4)
    return [level * rng.lognormvariate(0, noise) for level in levels]


def slide(start: float, end: float, steps: int) -> list[float]:
    return [start * (end / start) ** (i / steps) for i in range(steps)]


def test_fifty_steps_below_the_floor_are_critical_and_half_of_them_warn() -> None:
    """A slow slide from 0.6 to 0.02, so that the floor alone speaks: exact steps, decisive."""
    values = slide(0.6, 0.05, 1_000) + [0.02] * 60
    alerts = feed(EntropyCollapseDetector(), values)
    assert [step for step, alert in enumerate(alerts) if alert] == list(range(1_024, 1_060))
    severities = [alert.severity for alert in alerts if alert]
    assert severities == ["warning"] * 25 + ["critical"] * 11
    assert all(alert.decisive for alert in alerts if alert)


def test_one_step_above_the_floor_restarts_the_count() -> None:
    """In a row means in a row."""
    values = slide(0.6, 0.05, 1_000) + ([0.02] * 24 + [0.06]) * 10
    assert not any(feed(EntropyCollapseDetector(), values))


def test_a_sudden_fall_warns_at_an_exact_step() -> None:
    """From 0.8 to 0.12 at step 300: the median of five is there at 302."""
    alerts = feed(EntropyCollapseDetector(), [0.8] * 300 + [0.12] * 200)
    fired = [step for step, alert in enumerate(alerts) if alert]
    first = alerts[302]
    assert first is not None
    assert (first.severity, first.decisive) == ("warning", False)
    assert first.message == (
        "Entropy is 0.12, 85% below its recent high, 0.8 at step 301 (medians of 5 values; "
        "warning at 80%)."
    )
    # It is news until the level before the fall is 100 steps old.
    assert fired == list(range(302, 402))


def test_one_or_two_noisy_steps_are_not_a_fall() -> None:
    """The median of five does not see them."""
    assert not any(feed(EntropyCollapseDetector(), ([0.8] * 30 + [0.01, 0.01]) * 20))


def test_a_slow_healthy_fall_raises_no_alert() -> None:
    """From 0.6 to 0.06 over 400 steps, with noise, as language models do while reward rises."""
    values = noisy(slide(0.6, 0.06, 400) + [0.06] * 20, noise=0.05)
    assert not any(feed(EntropyCollapseDetector(), values))


def test_fall_steps_are_values_whatever_the_step_numbers() -> None:
    """Every tenth step, or 2,048 timesteps per row: the same rows raise the same alerts."""
    falls = slide(0.6, 0.06, 60)
    expected = severities(feed(EntropyCollapseDetector(), falls))
    assert expected
    for apart in (10, 2048):
        detector = EntropyCollapseDetector()
        alerts = [detector.update(apart * i, {"entropy": falls[i]}) for i in range(60)]
        assert severities(alerts) == expected


def test_a_policy_that_began_near_the_floor_has_not_collapsed() -> None:
    """Narrow tasks start at 0.04: an alarm needs a fall to a fifth of the highest level."""
    assert not any(feed(EntropyCollapseDetector(), noisy([0.04] * 400, noise=0.4)))
    alerts = feed(EntropyCollapseDetector(), [0.04] * 100 + [0.004] * 60)
    assert next(step for step, alert in enumerate(alerts) if alert) == 124


def test_the_rules_for_tokens_do_not_apply_to_negative_entropy() -> None:
    """A continuous policy's differential entropy may be anything."""
    assert not any(feed(EntropyCollapseDetector(), noisy([-107.0] * 200)))
    assert not any(feed(EntropyCollapseDetector(), [1.0] * 100 + [-3.0] * 90))


def test_a_threshold_is_off_until_it_is_set() -> None:
    """Whoever sets one is warned below it, and needs confirmation by further steps."""
    assert not any(feed(EntropyCollapseDetector(), [0.5] * 60))
    alerts = feed(EntropyCollapseDetector(threshold=1.0), [1.2] * 60 + [0.9])
    assert alerts[:60] == [None] * 60
    last = alerts[60]
    assert last is not None
    assert (last.severity, last.decisive) == ("warning", False)
    assert last.message == "Entropy 0.9 is below the threshold of 1."


@pytest.mark.parametrize(("values", "score"), [([0.8] * 60, 0.0), ([0.8] * 60 + [0.16] * 3, 1.0)])
def test_the_score_is_one_at_a_warning(values: list[float], score: float) -> None:
    """And 0 while it is near the highest level of the run."""
    detector = EntropyCollapseDetector()
    feed(detector, values)
    assert detector.score == pytest.approx(score)


def test_a_recorded_collapse_is_detected_and_the_healthy_recording_is_silent() -> None:
    """The exploding run jumps at 151 and is warned of at 164; the drifting one ends critical."""
    assert play("healthy") == []
    assert play("exploding")[0].step == 164
    drifting = play("drifting")
    assert drifting[0].step == 221
    assert next(alert.step for alert in drifting if alert.severity == "critical") == 314
