"""Trainer and sampler drifting apart: level and growth must both be there."""

from __future__ import annotations

import random

from cases import over
from fed_detectors import severities
from klarm.detectors import RolloutMismatchDetector
from klarm.types import Alert


def feed(values: list[float], **settings: float) -> list[Alert | None]:
    detector = RolloutMismatchDetector(**settings)  # type: ignore[arg-type]
    return [detector.update(step, {"kl_rollout": value}) for step, value in enumerate(values)]


def test_unsynchronised_weights_raise_an_alert_within_five_steps() -> None:
    """The gap jumps from 0.001 to 0.05 at step 100 and to 0.2 at 120: half of the last ten."""
    alerts = feed([0.001] * 100 + [0.05] * 20 + [0.2] * 20)
    assert severities(alerts) == {
        **dict.fromkeys(range(104, 124), "warning"),
        **dict.fromkeys(range(124, 140), "critical"),
    }
    assert alerts[104] is not None
    assert alerts[104].decisive
    assert alerts[104].message == (
        "Trainer and sampler are 0.0255 nats apart (median of the last 10 rows; "
        "warning above 0.02 in this run)."
    )


def test_a_slowly_growing_gap_raises_an_alert() -> None:
    """Doubling every 100 steps from 0.001: it passes 0.02 at step 432, its median at 437."""
    alerts = feed([0.001 * 2 ** (step / 100) for step in range(700)])
    assert min(severities(alerts)) == 437
    assert alerts[-1] is not None
    assert alerts[-1].severity == "critical"


def test_a_large_constant_gap_raises_no_alert() -> None:
    """A quantised sampler has 0.1; five times that raises an alert."""
    assert not any(feed([0.1] * 300 + [0.45] * 50))
    assert severities(feed([0.1] * 300 + [0.55] * 10)) == dict.fromkeys(range(305, 310), "warning")


def test_growth_below_the_floor_raises_no_alert() -> None:
    """From a millionth to a hundredth is ten thousand times, and still nothing."""
    assert not any(feed([1e-6] * 50 + [0.01] * 100))


def test_a_signed_estimate_is_judged_by_its_absolute_value() -> None:
    """Minus 0.05 nats is as far apart as 0.05."""
    assert min(severities(feed([-0.001] * 100 + [-0.05] * 20))) == 104


@over("seed", range(5))
def test_a_healthy_run_raises_no_alert(seed: int) -> None:
    """A gap of 0.003 that wanders and has spikes of one step."""
    rng = random.Random(seed)
    values = [0.003 * rng.lognormvariate(0, 0.5) for _ in range(1000)]
    for step in range(50, 1000, 40):
        values[step] = 0.5
    assert not any(feed(values))
