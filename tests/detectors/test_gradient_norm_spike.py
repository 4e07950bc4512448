"""Gradient norm spikes: alerts on single ones, incidents on what lasts."""

from __future__ import annotations

import math
import random
import re

import numpy as np
import pytest

from cases import over
from klarm.cli.demo import read_recording
from klarm.detectors import GradientNormSpikeDetector
from klarm.incidents.rules import IncidentRules
from klarm.incidents.tracker import Tracker
from klarm.types import Alert, Event


def feed(detector: GradientNormSpikeDetector, values: list[float]) -> list[Alert]:
    alerts = (detector.update(step, {"grad_norm": value}) for step, value in enumerate(values))
    return [alert for alert in alerts if alert is not None]


def opened(values: list[float]) -> list[int]:
    """Return the steps at which incidents open with the default settings."""
    detector = GradientNormSpikeDetector()
    incidents = Tracker([detector], IncidentRules())
    events: list[object] = []
    for step, value in enumerate(values):
        row = {"grad_norm": value}
        alert = detector.update(step, row)
        events += incidents.update(step, row, [alert] if alert else [])
    return [e.step for e in events if isinstance(e, Event) and e.event == "opened"]


def healthy(steps: int, seed: int = 0) -> list[float]:
    """Return a gradient norm that falls a little, scatters, and spikes now and then."""
    rng = random.Random(seed)
    return [
        (0.5 - 0.1 * i / steps) * rng.lognormvariate(0, 0.15) * (8 if i % 90 == 70 else 1)
        for i in range(steps)
    ]


def test_its_baseline_is_frozen_by_default() -> None:
    """The rest of the rule is that of kl_explosion."""
    detector = GradientNormSpikeDetector()
    assert detector.baseline_mode == "frozen"
    assert (detector.sigma_multiplier, detector.rolling_window) == (3.0, 100)


@pytest.mark.parametrize(
    ("sigmas", "severity"), [(2.9, None), (3.1, "warning"), (4.6, "critical"), (-9.0, None)]
)
def test_it_warns_above_three_sigma_and_is_critical_above_four_and_a_half(
    sigmas: float, severity: str | None
) -> None:
    """And a small gradient is no news."""
    detector = GradientNormSpikeDetector()
    feed(detector, [0.4, 0.6] * 50)
    alert = detector.update(100, {"grad_norm": 0.5 + 0.1 * sigmas})
    assert (alert.severity if alert else None) == severity


def test_a_single_spike_raises_an_alert_but_opens_no_incident() -> None:
    """Clipping absorbs it."""
    values = [0.4, 0.6] * 100 + [9.0] + [0.4, 0.6] * 50
    (alert,) = feed(GradientNormSpikeDetector(), values)
    assert (alert.step, alert.severity, alert.decisive) == (200, "critical", False)
    assert (
        "Gradient norm 9 is 85σ above the baseline of its first 100 values, 0.5 ± 0.1"
        in alert.message
    )
    assert opened(values) == []


def test_a_lasting_rise_opens_an_incident_at_its_fifth_step() -> None:
    """And the frozen baseline does not get used to it."""
    values = [0.4, 0.6] * 100 + [1.0] * 300
    alerts = feed(GradientNormSpikeDetector(), values)
    assert [alert.step for alert in alerts] == list(range(200, 500))
    assert opened(values) == [204]


@over("seed", range(5))
def test_a_healthy_run_with_spikes_opens_no_incident(seed: int) -> None:
    """However many spikes, as long as each is alone."""
    assert opened(healthy(2_000, seed)) == []


def test_only_the_drifting_recording_opens_an_incident() -> None:
    """Its gradients grow severalfold when it begins to game its reward."""
    assert opened([row["grad_norm"] for row in read_recording("healthy")]) == []
    assert opened([row["grad_norm"] for row in read_recording("drifting")])[0] == 161


def test_scores_of_a_series_are_those_of_the_stream() -> None:
    """To the last bit."""
    values = healthy(500)
    detector = GradientNormSpikeDetector()
    streamed = []
    for step, value in enumerate(values):
        detector.update(step, {"grad_norm": value})
        streamed.append(detector.score)
    np.testing.assert_array_equal(detector.scores(values), np.array(streamed))


def test_an_infinite_gradient_that_a_loss_scaler_skips_opens_no_incident() -> None:
    """With float16 it is routine, one step or a few; one that stays is not."""
    values = [math.inf, math.inf, *healthy(300), math.inf, *healthy(50), math.nan]
    alerts = feed(GradientNormSpikeDetector(), values)
    assert [
        alert.severity for alert in alerts if not math.isfinite(alert.metrics["grad_norm"])
    ] == ["critical"] * 4
    assert opened(values) == []
    assert opened([*healthy(100), *[math.inf] * 6]) == [104]


def test_the_message_says_which_values_a_frozen_baseline_has() -> None:
    """While it is being collected, and after people have accepted a level as normal."""
    detector = GradientNormSpikeDetector()
    early = feed(detector, [0.4, 0.6] * 20 + [2.0])[-1]
    assert " above the baseline of its first 40 values, 0.5 ± " in early.message
    detector.relearn([(step, {"grad_norm": value}) for step, value in enumerate([4.0, 6.0] * 15)])
    later = detector.update(30, {"grad_norm": 20.0})
    assert later is not None
    assert " the baseline of the 30 values since its level was accepted, 5 ± 1 (" in later.message


def test_the_sigma_of_a_message_follows_from_its_numbers() -> None:
    """With two digits of the standard deviation, 4.86 was 4.98."""
    detector = GradientNormSpikeDetector()
    rng = random.Random(3)
    feed(detector, [0.5 * rng.lognormvariate(0.0, 0.2) for _ in range(100)])
    for step, value in enumerate([0.95, 1.05, 1.2, 1.7], 100):
        alert = detector.update(step, {"grad_norm": value})
        assert alert is not None
        now, sigmas, mean, std = map(
            float,
            re.findall(
                r"norm (\S+) is (\S+)σ above the baseline of its first 100 values, (\S+) ± (\S+) ",
                alert.message,
            )[0],
        )
        assert (now - mean) / std == pytest.approx(sigmas, rel=0.007)
