"""The probe's own detectors: kl_probe_explosion.py, kl_probe_runaway.py and kl_probe_budget.py."""

from __future__ import annotations

import pytest

import klarm
from klarm.detectors import (
    Detector,
    KLBudgetDetector,
    KLExplosionDetector,
    KLProbeBudgetDetector,
    KLProbeExplosionDetector,
    KLProbeRunawayDetector,
    KLRunawayDetector,
)
from klarm.monitor.coverage import idle_lines
from klarm.monitor.missing import hints

PAIRS = [
    (KLProbeExplosionDetector, KLExplosionDetector),
    (KLProbeRunawayDetector, KLRunawayDetector),
    (KLProbeBudgetDetector, KLBudgetDetector),
]
EXPLODES = [0.02 + 0.001 * (step % 3) for step in range(100)] + [0.03 * 1.5**i for i in range(15)]


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
def test_it_judges_the_probe_as_the_other_detector_judges_the_trainer(
    ours: type[Detector], theirs: type[Detector]
) -> None:
    """The same rule at the same steps, under names of its own."""
    one, other = ours(), theirs()
    said = [one.update(step, {"kl_probe": kl}) for step, kl in enumerate(EXPLODES)]
    expected = [other.update(step, {"kl": kl}) for step, kl in enumerate(EXPLODES)]
    assert [alert and alert.severity for alert in said] == [a and a.severity for a in expected]
    alerts = [alert for alert in said if alert]
    assert alerts
    assert all("kl_probe" in alert.metrics and "kl" not in alert.metrics for alert in alerts)
    assert one.update(200, {"kl": 50.0}) is None
    assert other.update(200, {"kl_probe": 50.0}) is None


def test_an_incident_of_the_probe_is_on_kl_and_has_a_cause() -> None:
    """Where the trainer logs no KL, the playbook goes by the probe's."""
    monitor = klarm.init("a", learning_rate_jump={"enabled": False}, console=False)
    patterns: list[str] = []
    monitor.on_event.append(lambda event: patterns.append(event.pattern))
    for step, kl in enumerate(EXPLODES):
        rate = 1e-6 if step < 100 else 1e-4
        monitor.log({"kl_probe": kl, "learning_rate": rate, "reward": 0.5 + 0.01 * (step % 7)})
    (incident,) = monitor.incidents
    assert incident.signal == "kl"
    assert incident.severity == "critical"
    assert patterns[0] == "learning rate raised"
    assert set(incident.detectors) <= {ours.name for ours, _ in PAIRS}


@pytest.mark.parametrize(("probe_budget", "critical"), [(100.0, False), (1.0, True)])
def test_the_two_budgets_are_independent(probe_budget: float, critical: bool) -> None:
    """A large budget of the one does not excuse the other."""
    monitor = klarm.init(
        "a",
        kl_budget={"budget_nats": 0.001},
        kl_probe_budget={"budget_nats": probe_budget},
        kl_probe_runaway={"enabled": False},
        kl_probe_explosion={"enabled": False},
        console=False,
    )
    for _ in range(20):
        monitor.log({"kl_probe": 5.0})
    assert bool(monitor.critical) is critical


def test_without_a_probe_its_detectors_are_never_mentioned() -> None:
    """Neither that its detectors are idle nor a hint."""
    monitor = klarm.init("a", console=False)
    monitor.log({"reward": 0.5})
    lines = [
        *idle_lines(monitor.detectors, monitor.binding),
        *hints(monitor.detectors, monitor.binding),
    ]
    assert not any("probe" in line for line in lines)


def test_a_probe_that_measures_less_often_is_not_lost() -> None:
    """It says itself when it stops."""
    monitor = klarm.init("a", console=False)
    for step in range(400):
        probed = {"kl_probe": 0.01 + 1e-5 * step} if step < 20 else {}
        monitor.log({"reward": 0.5 + 0.01 * (step % 7), **probed}, step)
    assert [i.signal for i in monitor.incidents] == []
