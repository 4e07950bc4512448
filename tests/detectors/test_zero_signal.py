"""Groups with equal rewards: how many, for how long."""

from __future__ import annotations

import random

import pytest

from klarm.cli.demo import read_recording
from klarm.detectors import ZeroSignalDetector
from klarm.monitor.monitor import Monitor
from klarm.types import Alert


def feed(detector: ZeroSignalDetector, shares: list[float]) -> list[Alert]:
    alerts = (
        detector.update(step, {"zero_std_fraction": share}) for step, share in enumerate(shares)
    )
    return [alert for alert in alerts if alert is not None]


@pytest.mark.parametrize(("share", "severity"), [(0.6, "warning"), (0.9, "critical")])
def test_the_twentieth_consecutive_step_raises_an_alert(share: float, severity: str) -> None:
    """It has confirmed itself by then, so the alert is decisive."""
    alerts = feed(ZeroSignalDetector(), [0.1] * 50 + [share] * 25)
    assert [alert.step for alert in alerts] == [69, 70, 71, 72, 73, 74]
    assert {alert.severity for alert in alerts} == {severity}
    assert all(alert.decisive for alert in alerts)


def test_a_warning_becomes_critical_when_the_higher_share_has_lasted_as_long() -> None:
    """Each share has a count of its own."""
    alerts = feed(ZeroSignalDetector(), [0.1] * 30 + [0.6] * 20 + [0.8] * 20)
    assert alerts[0].step == 49
    assert [alert.step for alert in alerts if alert.severity == "critical"] == [69]


def test_one_step_below_restarts_the_count() -> None:
    """Nineteen in a row are not enough, however often."""
    assert feed(ZeroSignalDetector(), ([0.9] * 19 + [0.2]) * 20) == []


def test_the_shares_themselves_raise_no_alert() -> None:
    """Strictly above."""
    assert feed(ZeroSignalDetector(), [0.5] * 100) == []
    alerts = feed(ZeroSignalDetector(), [0.75] * 100)
    assert {alert.severity for alert in alerts} == {"warning"}


def test_a_run_that_starts_without_signal_raises_an_alert_after_the_warmup() -> None:
    """Steps in a row count from the first."""
    assert feed(ZeroSignalDetector(), [1.0] * 30)[0].step == 20
    assert feed(ZeroSignalDetector(warmup_steps=0), [1.0] * 30)[0].step == 19


def test_the_message_has_the_share_the_limit_and_the_duration() -> None:
    """In words."""
    (alert,) = feed(ZeroSignalDetector(consecutive_steps=30), [0.625] * 30)
    assert alert.message == (
        "In 62% of the groups all rewards are equal. The share has been above 50% for 30 rows "
        "(warning after 30)."
    )
    assert (alert.metrics["zero_std_fraction"], alert.metrics["rows_beyond"]) == (0.625, 30.0)


def test_a_healthy_run_is_silent() -> None:
    """A third of eight groups equal on average, more now and then."""
    rng = random.Random(1)
    shares = [sum(rng.random() < 0.35 for _ in range(8)) / 8 for _ in range(5_000)]
    assert feed(ZeroSignalDetector(), shares) == []


def test_the_recorded_healthy_run_is_silent_and_the_collapsed_one_is_not() -> None:
    """After the explosion the policy says the same every time: critical at step 241."""
    healthy = [row["frac_reward_zero_std"] for row in read_recording("healthy")]
    assert feed(ZeroSignalDetector(), healthy) == []
    exploding = [row["frac_reward_zero_std"] for row in read_recording("exploding")]
    first = feed(ZeroSignalDetector(), exploding)[0]
    assert (first.step, first.severity) == (240, "critical")  # counted from 0 here


def test_its_incident_begins_with_the_first_of_these_rows() -> None:
    """The alert comes 20 rows later, and says so."""
    monitor = Monitor("a", [ZeroSignalDetector()])
    for step, share in enumerate([0.1] * 50 + [0.9] * 25):
        monitor.log({"zero_std_fraction": share}, 10 * step)
    (incident,) = monitor.incidents
    assert (incident.started, incident.opened) == (500, 690)


def test_an_incident_that_began_at_step_0_is_dated_there() -> None:
    """0 is a step like any other."""
    monitor = Monitor("a", [ZeroSignalDetector(warmup_steps=0)])
    for step in range(25):
        monitor.log({"zero_std_fraction": 0.9}, step)
    assert [incident.started for incident in monitor.incidents] == [0]
