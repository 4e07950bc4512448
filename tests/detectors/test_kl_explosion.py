"""The specified detector: when it fires, when it does not, and what it says.

Covers zscore.py too.
"""

from __future__ import annotations

import math
import random
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import over
from fed_detectors import feed
from klarm.detectors import KLExplosionDetector
from klarm.settings.fields import ConfigError
from klarm.wording import number

kl_values = st.floats(allow_nan=True, allow_infinity=True)


def wave(count: int) -> list[float]:
    """Return a baseline with mean 0.5 and population standard deviation 0.1, for even counts."""
    return [0.4, 0.6] * (count // 2)


def test_the_defaults_are_those_of_the_specification() -> None:
    """Every setting, its value and its type."""
    detector = KLExplosionDetector()
    assert detector.enabled is True
    assert detector.sigma_multiplier == 3.0
    assert detector.rolling_window == 100
    assert detector.warmup_steps == 20
    assert detector.baseline_mode == "rolling"
    assert detector.clip_region == 0.2
    assert detector.min_std == 1e-4


@over(
    "sigmas, severity",
    [(2.99, None), (3.01, "warning"), (4.49, "warning"), (4.51, "critical"), (-9.0, None)],
)
def test_it_warns_above_three_sigma_and_is_critical_above_four_and_a_half(
    sigmas: float, severity: str | None
) -> None:
    """Below the mean it never fires."""
    detector = KLExplosionDetector()
    feed(detector, wave(100))
    alert = detector.update(100, {"kl": 0.5 + 0.1 * sigmas})
    assert (alert.severity if alert else None) == severity
    assert detector.score == pytest.approx(sigmas)


def test_the_thresholds_themselves_do_not_fire() -> None:
    """Strictly greater: powers of two make z exact."""
    for z, severity in ((4.0, None), (4.25, "warning"), (6.0, "warning"), (6.25, "critical")):
        detector = KLExplosionDetector(sigma_multiplier=4.0)
        feed(detector, [0.25, 0.75] * 50)
        alert = detector.update(100, {"kl": 0.5 + 0.25 * z})
        assert detector.score == z
        assert (alert.severity if alert else None) == severity


def test_the_baseline_consists_of_earlier_values() -> None:
    """Against the standard library, value by value, with those that fired left in."""
    random.seed(3)
    values = [random.lognormvariate(-4, 0.8) for _ in range(400)]
    detector = KLExplosionDetector(rolling_window=50)
    for i, value in enumerate(values):
        before = values[max(0, i - 50) : i]
        detector.update(i, {"kl": value})
        if i >= 20:
            mean = statistics.fmean(before)
            spread = max(statistics.pstdev(before), 1e-4, 0.01 * abs(mean))
            assert detector.score == pytest.approx((value - mean) / spread, rel=1e-9)


def test_nothing_fires_in_warmup_but_all_of_it_is_learnt() -> None:
    """Value number 21 is the first that can."""
    detector = KLExplosionDetector()
    assert feed(detector, [0.4, 0.6] * 9 + [0.4, 90.0]) == [None] * 20
    assert detector.score == 0.0
    assert detector.update(20, {"kl": 500.0}) is not None
    assert detector.mean == pytest.approx((9.4 + 90.0) / 20)


@pytest.mark.parametrize("warmup_steps", [0, 3, 10])
def test_a_baseline_needs_ten_values(warmup_steps: int) -> None:
    """However short the warm-up, the eleventh value is the first that can fire."""
    detector = KLExplosionDetector(warmup_steps=warmup_steps)
    assert feed(detector, [0.4, 0.6] * 4 + [0.4, 50.0]) == [None] * 10
    assert detector.update(10, {"kl": 500.0}) is not None


def test_steps_without_kl_are_skipped() -> None:
    """They count neither for the warm-up nor for the baseline."""
    detector = KLExplosionDetector()
    for step in range(200):
        assert detector.update(step, {"loss": 1.0}) is None
    assert feed(detector, [0.4, 0.6] * 9 + [0.4, 9.0]) == [None] * 20


def test_a_rolling_baseline_follows_drift_and_a_frozen_one_does_not() -> None:
    """KL grows tenfold over 2,000 steps: the specified trade-off between the two modes."""
    rng = random.Random(5)
    flat = [0.1 * rng.lognormvariate(0, 0.1) for _ in range(150)]
    drift = [0.1 * 10 ** (i / 2000) * rng.lognormvariate(0, 0.1) for i in range(2000)]
    rolling = feed(KLExplosionDetector(sigma_multiplier=5.0), flat + drift)
    frozen = feed(KLExplosionDetector(sigma_multiplier=5.0, baseline_mode="frozen"), flat + drift)
    assert not any(rolling)
    assert all(frozen[-1000:])
    assert frozen[-1] is not None
    assert frozen[-1].severity == "critical"


def test_a_frozen_baseline_is_permanently_the_first_window() -> None:
    """Until that is full it behaves as a rolling one."""
    values = [*wave(100), *[5.0] * 300]
    frozen = KLExplosionDetector(baseline_mode="frozen")
    rolling = KLExplosionDetector()
    for step, value in enumerate(values[:100]):
        assert frozen.update(step, {"kl": value}) == rolling.update(step, {"kl": value})
        assert frozen.score == rolling.score
    alerts = feed(frozen, values[100:])
    assert all(alert is not None and alert.metrics["baseline_mean"] == 0.5 for alert in alerts)
    assert frozen.score == pytest.approx(45.0)


@over("value, word", [(math.nan, "NaN"), (math.inf, "infinite"), (-math.inf, "minus infinity")])
@over("before", [0, 5, 300])
def test_a_value_that_is_not_finite_is_critical_immediately(
    value: float, word: str, before: int
) -> None:
    """Also as the very first, and it says which it is."""
    detector = KLExplosionDetector()
    feed(detector, wave(before))
    alert = detector.update(before, {"kl": value})
    assert alert is not None
    assert alert.severity == "critical"
    assert f"kl is {word} at this step" in alert.message
    assert "checkpoint" in alert.recommendation
    assert alert.metrics.keys() == {
        "kl",
        "z_score",
        "baseline_mean",
        "baseline_std",
        "baseline_mode",
        "threshold",
        "clip_region",
    }
    assert repr(alert.metrics["kl"]) == repr(value)
    assert detector.score == math.inf


@pytest.mark.parametrize("mode", ["rolling", "frozen"])
def test_a_nan_never_enters_the_baseline(mode: str) -> None:
    """With and without it, everything later is the same."""
    rng = random.Random(7)
    values = [rng.lognormvariate(-4, 0.5) for _ in range(300)]
    clean = KLExplosionDetector(baseline_mode=mode)
    broken = KLExplosionDetector(baseline_mode=mode)
    for step, value in enumerate(values):
        if step % 9 == 4:
            broken.update(step, {"kl": (math.nan, math.inf, -math.inf)[step % 3]})
        assert clean.update(step, {"kl": value}) == broken.update(step, {"kl": value})
        assert clean.score == broken.score


def test_a_millionth_after_thirty_zeros_raises_no_alert() -> None:
    """Without a least spread it would be infinitely many sigma."""
    detector = KLExplosionDetector()
    assert not any(feed(detector, [0.0] * 30 + [1e-6]))
    assert detector.score == pytest.approx(0.01)


def test_a_flat_series_raises_no_alert_on_tiny_changes() -> None:
    """One per cent of the mean is the least spread: 0.02 to 0.020001 is 0.005 sigma."""
    detector = KLExplosionDetector()
    assert not any(feed(detector, [0.02] * 60 + [0.020001]))
    assert detector.score == pytest.approx(0.000001 / 0.0002)


def test_an_ordinary_explosion_is_detected_after_a_huge_spike_has_left_the_window() -> None:
    """1e12 blinds the rolling window while it is in it, as specified, and not a step longer."""
    detector = KLExplosionDetector()
    values = [*wave(50), 1e12, *wave(100)]
    alerts = feed(detector, values)
    assert [step for step, alert in enumerate(alerts) if alert] == [50]
    alert = detector.update(151, {"kl": 1.1})
    assert alert is not None
    assert detector.score == pytest.approx(6.0)


def test_the_alert_says_what_happened_and_what_to_do() -> None:
    """All the numbers of the specification are in its metrics."""
    detector = KLExplosionDetector(clip_region=0.3)
    feed(detector, wave(100))
    warning = detector.update(100, {"kl": 0.9})
    assert warning is not None
    assert warning.detector == "kl_explosion"
    assert warning.step == 100
    assert warning.message == (
        "KL 0.9 is 4σ above its rolling baseline of 0.5 ± 0.1 (warning above 3σ)."
    )
    assert warning.metrics == {
        "kl": 0.9,
        "z_score": pytest.approx(4.0),
        "baseline_mean": pytest.approx(0.5),
        "baseline_std": pytest.approx(0.1),
        "baseline_mode": "rolling",
        "threshold": 3.0,
        "clip_region": 0.3,
        "spread": pytest.approx(0.1),
        "learnt": 100.0,
    }
    assert "raise the KL penalty" in warning.recommendation
    critical = detector.update(101, {"kl": 9.0})
    assert critical is not None
    assert critical.metrics["threshold"] == 4.5
    for words in ("learning rate", "KL penalty", "checkpoint"):
        assert words in critical.recommendation


def test_thousands_of_sigma_are_a_plain_number() -> None:
    """People read it on a phone."""
    detector = KLExplosionDetector()
    feed(detector, wave(100))
    alert = detector.update(100, {"kl": 375.5})
    assert alert is not None
    assert alert.message.startswith("KL 375.5 is 3750σ above its rolling baseline")


@over(
    "settings, message",
    [
        ({"sigma_multiplier": -3.0}, "kl_explosion.sigma_multiplier must be greater than 0"),
        ({"sigma_multiplier": 0}, "sigma_multiplier must be greater than 0, got 0"),
        ({"sigma_multiplier": math.nan}, "sigma_multiplier must be a finite number, got nan"),
        ({"sigma_multiplier": "3"}, "sigma_multiplier must be a number, got '3'"),
        ({"rolling_window": 9}, "rolling_window must be at least 10, got 9"),
        ({"rolling_window": 50.5}, "rolling_window must be a whole number, got 50.5"),
        ({"rolling_window": True}, "rolling_window must be a whole number, got True"),
        ({"warmup_steps": -1}, "warmup_steps must be at least 0, got -1"),
        ({"warmup_steps": math.nan}, "warmup_steps must be a whole number, got nan"),
        ({"baseline_mode": "frosen"}, "must be 'rolling' or 'frozen', got 'frosen'; did you mean"),
        ({"clip_region": math.inf}, "clip_region must be a finite number, got inf"),
        ({"clip_region": math.nan}, "clip_region must be a finite number, got nan"),
        ({"min_std": 0.0}, "min_std must be greater than 0, got 0.0"),
        ({"min_std": math.nan}, "min_std must be a finite number, got nan"),
        ({"enabled": 1}, "enabled must be true or false, got 1"),
    ],
)
def test_impossible_settings_are_rejected_at_construction(
    settings: dict[str, object], message: str
) -> None:
    """The message names the setting, the value and what would be right."""
    with pytest.raises(ConfigError) as refusal:
        KLExplosionDetector(**settings)
    assert message in str(refusal.value)


@pytest.mark.parametrize("mode", ["rolling", "frozen"])
@given(st.lists(kl_values, max_size=150), st.integers(10, 40), st.integers(0, 30))
def test_scores_of_a_series_are_those_of_the_stream(
    mode: str, values: list[float], rolling_window: int, warmup_steps: int
) -> None:
    """To the last bit, whatever the values."""
    detector = KLExplosionDetector(
        baseline_mode=mode, rolling_window=rolling_window, warmup_steps=warmup_steps
    )
    streamed = []
    for step, value in enumerate(values):
        detector.update(step, {"kl": value})
        streamed.append(detector.score)
    np.testing.assert_array_equal(detector.scores(np.array(values)), np.array(streamed))


@pytest.mark.parametrize("mode", ["rolling", "frozen"])
def test_scores_agree_on_a_long_series_with_spikes_and_gaps(mode: str) -> None:
    """Over many blocks, with 1e12 and NaN among them; an alert is where a score passes 3."""
    rng = np.random.default_rng(11)
    values = rng.lognormal(-4, 0.6, 20_000)
    values[rng.integers(0, 20_000, 40)] = 1e12
    values[rng.integers(0, 20_000, 40)] = np.nan
    detector = KLExplosionDetector(baseline_mode=mode)
    alerts = feed(detector, values.tolist())
    scores = detector.scores(values)
    assert [alert is not None for alert in alerts] == (scores > 3.0).tolist()


def test_scores_do_not_change_the_detector() -> None:
    """A look at another series does not disturb a running one."""
    detector = KLExplosionDetector()
    feed(detector, wave(100))
    detector.scores(np.full(500, 7.0))
    detector.update(100, {"kl": 0.7})
    assert detector.score == pytest.approx(2.0)


def test_a_message_has_no_exponent_where_a_number_is_short() -> None:
    """The peak beside it is written in the same way: 24698, not 2.47e+04."""
    detector = KLExplosionDetector()
    values = [*(0.02 + 0.001 * (step % 3) for step in range(50)), 24_698.0]
    alert = [detector.update(step, {"kl": value}) for step, value in enumerate(values)][-1]
    assert alert is not None
    assert alert.message.startswith(f"KL 24698 is {number(detector.score)}σ above")
    assert "e+" not in alert.message
