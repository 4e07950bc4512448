"""kl_runaway detects sudden and slow growth, but no healthy growth and no spikes."""

from __future__ import annotations

import math
import random

import pytest

from cases import over
from klarm.cli.demo import read_recording
from klarm.detectors import KLRunawayDetector
from klarm.testing import alerts_of


def growing(count: int, seed: int, noise: float = 0.2) -> list[float]:
    """Return KL that grows from nothing to a plateau, as in healthy runs, with log-normal noise."""
    rng = random.Random(seed)
    return [0.03 * (1 - math.exp(-i / 60)) * rng.lognormvariate(0, noise) for i in range(count)]


def first_alarm(values: list[float], severity: str | None = None) -> int | None:
    detector = KLRunawayDetector()
    for step, value in enumerate(values):
        alert = detector.update(step, {"kl": value})
        if alert is not None and severity in (None, alert.severity):
            assert alert.decisive
            return step
    return None


@over("seed", range(10))
def test_growth_to_a_plateau_is_silent(seed: int) -> None:
    """However many orders of magnitude it takes."""
    assert first_alarm(growing(1500, seed)) is None


def test_an_explosion_is_detected_at_an_exact_step_and_then_critical() -> None:
    """KL doubles every ten steps from step 300 on."""
    values = growing(300, 3) + [0.03 * 2 ** (i / 10) for i in range(60)]
    assert first_alarm(values) == 310
    assert first_alarm(values, "critical") == 312


def test_the_recorded_explosion_is_detected_soon_after_the_learning_rate_jumped() -> None:
    """Which it did after step 150; the healthy recording is silent throughout."""
    kl = [row["kl"] for row in read_recording("exploding")]
    assert first_alarm(kl) == 156
    assert first_alarm([row["kl"] for row in read_recording("healthy")]) is None


def test_a_lasting_jump_is_detected() -> None:
    """×10 at step 400, permanently."""
    values = growing(400, 5) + [10 * value for value in growing(600, 6)[100:]]
    assert first_alarm(values) == 404


def test_the_slow_test_detects_slow_drift() -> None:
    """×10 over 2,000 steps: every single step looks normal."""
    values = growing(1000, 7)
    values += [value * 10 ** (i / 2000) for i, value in enumerate(growing(3000, 8)[1000:])]
    assert first_alarm(values) == 1808


def test_growth_by_leaps_is_detected() -> None:
    """Each value is many noise units above the one before: a spike would not stay up."""
    assert first_alarm(growing(300, 3, noise=0.05) + [0.03 * 2**i for i in range(10)]) == 305


def test_a_rise_of_a_few_thousandths_raises_no_alert() -> None:
    """A KL of 0.001 that doubles permanently is still tiny."""
    values = [value / 30 for value in growing(400, 5)]
    assert first_alarm(values + [2.5 * value for value in values[100:]]) is None


def test_spikes_are_not_an_explosion() -> None:
    """One in fifty steps is a thousand times too high."""
    rng = random.Random(9)
    values = [v * 1000 if rng.random() < 0.02 else v for v in growing(2000, 10)]
    assert first_alarm(values) is None


def test_zeros_are_ignored() -> None:
    """Neither at the start nor in between."""
    values = [v for value in growing(800, 11) for v in (value, 0.0)]
    assert first_alarm([0.0] * 50 + values) is None


@pytest.mark.parametrize(
    ("sign", "message"),
    [
        (1, "KL is 0.06431; its trend predicted 0.031."),
        (-1, "KL is -0.06431; its trend predicted ±0.031."),
    ],
)
def test_an_alert_of_the_quick_test_says_what_the_trend_predicted(sign: int, message: str) -> None:
    """KL is judged by its absolute value: a signed estimate, such as k1, may run away downward."""
    values = growing(300, 12) + [0.03 * 2 ** (i / 10) for i in range(60)]
    first, *_ = alerts_of(KLRunawayDetector(), [sign * value for value in values])
    assert first.message == message
    assert first.worse == ("higher" if sign > 0 else "lower")
    assert first.metrics["threshold"] == 1.0
    assert first.metrics["score"] > 1.0


@over("seed", range(5))
def test_the_trend_predicts_where_a_steady_rise_leads(seed: int) -> None:
    """To within 5 %, the least noise that the detector assumes: it does not quote an old level."""
    rng = random.Random(seed)
    values = [0.0165 * i / 240 * rng.gauss(1, 0.03) for i in range(1, 241)]
    first, *_ = alerts_of(KLRunawayDetector(), values + [0.0165 * 10 ** (i / 5) for i in range(9)])
    assert first.step > 240
    assert first.metrics["expected"] == pytest.approx(0.0165 * first.step / 240, rel=0.05)


@pytest.mark.parametrize(
    ("sign", "said"),
    [
        (1, "KL is 0.08535. Its smoothed level has grown"),
        (-1, "KL is -0.08535. Its smoothed absolute value has grown"),
    ],
)
def test_an_alert_of_the_slow_test_compares_the_growth_of_two_parts_of_the_run(
    sign: int, said: str
) -> None:
    """KL doubles until step 1,000; then it grows sixteenfold."""
    values = [0.02 * 2 ** (i / 1000) for i in range(1000)]
    values += [0.04 * 16 ** (i / 3000) for i in range(3000)]
    alerts = alerts_of(KLRunawayDetector(), [sign * value for value in values])
    assert alerts[0].message == (
        f"{said} ×2.08 in the second half of the run, after ×1.22 in the quarter before (warning "
        "at ×2.08)."
    )
    worst = next(alert for alert in alerts if alert.severity == "critical")
    assert worst.message.endswith(
        " ×2.82 in the second half of the run, after ×1.27 in the quarter "
        "before (critical at ×2.82)."
    )


def test_the_largest_floats_do_not_overflow() -> None:
    """The forecast of such values is larger than any float."""
    assert first_alarm([1.4e308, 1.0, 1.4e308, *[1.4e308] * 50]) == 10


def test_a_rise_beyond_any_float_raises_an_alert() -> None:
    """Its factor is larger than any float too."""
    assert max(alarms([1e-9] * 5000 + [1e308] * 3000)) > 6000


def alarms(values: list[float]) -> list[int]:
    detector = KLRunawayDetector()
    return [i for i, value in enumerate(values) if detector.update(i, {"kl": value}) is not None]


RUNAWAY = [2 ** (min(i, 40) / 10) for i in range(150)]  # doubles every ten steps, stays at x16


@over("seed", range(5))
def test_there_is_no_alert_once_kl_has_fallen_back(seed: int) -> None:
    """Although the level, learnt over many steps, falls slowly."""
    healthy = growing(1200, seed)
    values = healthy[:700] + [0.03 * r for r in RUNAWAY] + healthy[700:]
    said = alarms(values)
    assert said
    assert max(said) < 700 + len(RUNAWAY) + 15


@over("seed", range(5))
@over("between", [20, 150])
def test_a_second_runaway_is_detected_as_early_as_the_first(seed: int, between: int) -> None:
    """The first one has changed neither the forecast nor its noise."""
    healthy = growing(1000, seed)
    runaway = [0.03 * r for r in RUNAWAY]
    values = healthy[:700] + runaway + healthy[700 : 700 + between]
    again = len(values)
    said = alarms(values + runaway)
    first = said[0] - 700
    second = next(step for step in said if step >= again) - again
    assert second <= first + 3


def test_an_alert_is_always_on_a_value_above_the_forecast() -> None:
    """A value at or below its forecast raises no alert, whatever the sum is."""
    detector = KLRunawayDetector()
    values = growing(300, 3) + [3.0] * 8 + [1e-4]
    said = [detector.update(step, {"kl": value}) for step, value in enumerate(values)]
    assert said[-2] is not None
    assert said[-1] is None


def test_a_level_that_stays_becomes_the_new_normal() -> None:
    """A single lasting jump does not raise alerts forever."""
    values = growing(400, 5) + [10 * value for value in growing(1500, 6)[100:]]
    assert max(alarms(values)) < 1200
