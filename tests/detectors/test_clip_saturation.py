"""A clipped share that stays high: how high, for how long."""

from __future__ import annotations

import random

from cases import over
from fed_detectors import severities
from klarm.cli.demo import read_recording
from klarm.detectors import ClipSaturationDetector
from klarm.types import Alert


def feed(values: list[float], **settings: float) -> list[Alert | None]:
    detector = ClipSaturationDetector(**settings)  # type: ignore[arg-type]
    return [detector.update(step, {"clip_fraction": value}) for step, value in enumerate(values)]


def test_the_twentieth_value_above_a_fifth_raises_a_warning() -> None:
    """From step 50 on it is 0.3: at step 69, and decisive."""
    alerts = feed([0.05] * 50 + [0.3] * 25)
    assert severities(alerts) == dict.fromkeys(range(69, 75), "warning")
    assert alerts[69] is not None
    assert alerts[69].decisive
    assert alerts[69].message == (
        "The clipped share has been at least 0.3 for 20 rows, now 0.3 (warning above 0.2)."
    )


def test_twenty_values_above_two_fifths_are_critical() -> None:
    """A warning until the last lower value is twenty steps back."""
    alerts = feed([0.3] * 30 + [0.5] * 25)
    assert severities(alerts) == {
        **dict.fromkeys(range(19, 49), "warning"),
        **dict.fromkeys(range(49, 55), "critical"),
    }


def test_one_low_value_restarts_the_count() -> None:
    """Nineteen, one at the line, nineteen: silence."""
    assert not any(feed([0.3] * 19 + [0.2] + [0.3] * 19))


def test_the_number_of_steps_is_a_setting() -> None:
    """Also a single step."""
    assert severities(feed([0.1, 0.3, 0.1, 0.5], consecutive_steps=1)) == {
        1: "warning",
        3: "critical",
    }


@over("seed", range(5))
def test_a_healthy_run_raises_no_alert(seed: int) -> None:
    """A share of about a tenth that now and then jumps over the line."""
    rng = random.Random(seed)
    assert not any(feed([min(1.0, 0.1 * rng.lognormvariate(0, 0.6)) for _ in range(2000)]))


def test_the_healthy_recording_raises_no_alert() -> None:
    """A real GRPO run that learns."""
    rows = read_recording("healthy")
    assert not any(feed([row["clip_ratio/region_mean"] for row in rows]))
