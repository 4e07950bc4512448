"""Updates that move too far: the step, the median of three, and steady runs left alone."""

from __future__ import annotations

import random

from cases import over
from klarm.detectors import TrustRegionDetector
from klarm.types import Alert


def feed(values: list[float]) -> list[Alert | None]:
    detector = TrustRegionDetector()
    return [detector.update(step, {"kl_old": value}) for step, value in enumerate(values)]


def test_one_large_update_is_a_single_warning() -> None:
    """At its step, the first one too, and the next is quiet again."""
    for before in (0, 40):
        alerts = feed([*[0.01] * before, 0.3, 0.01, 0.01])
        assert [step for step, alert in enumerate(alerts) if alert] == [before]
        assert alerts[before] is not None
        assert (alerts[before].severity, alerts[before].decisive) == ("warning", False)


def test_two_of_three_large_updates_are_critical_and_decisive() -> None:
    """A policy whose updates grow by a fifth each step: a warning at step 13, critical at 14."""
    alerts = feed([0.01 * 1.2**step for step in range(20)])
    severities = {step: alert.severity for step, alert in enumerate(alerts) if alert}
    assert severities == {13: "warning", **dict.fromkeys(range(14, 20), "critical")}
    assert alerts[14] is not None
    assert alerts[14].decisive
    assert alerts[14].message == (
        "The last three updates moved the policy by a median of 0.107 nats (critical above 0.1)."
    )


def test_a_signed_estimate_is_judged_by_its_absolute_value() -> None:
    """Minus 0.3 nats is as far as 0.3."""
    assert [alert.severity for alert in feed([-0.3, -0.3, -0.3]) if alert] == [
        "warning",
        "warning",
        "critical",
    ]


def test_the_threshold_itself_does_not_fire() -> None:
    """Strictly greater."""
    assert feed([0.1] * 5) == [None] * 5


@over("seed", range(5))
def test_a_healthy_run_raises_no_alert(seed: int) -> None:
    """PPO's updates of 0.005 to 0.03 nats, noisy as they are."""
    rng = random.Random(seed)
    assert not any(feed([0.012 * rng.lognormvariate(0, 0.5) for _ in range(1000)]))
