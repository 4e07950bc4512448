"""Allowances: what was closed or accepted opens nothing until it is worse, or has been quiet."""

from __future__ import annotations

import math

import pytest

from klarm.detectors import Detector, KLBudgetDetector, KLExplosionDetector
from klarm.incidents.allowances import Allowances
from klarm.incidents.measured import Measured
from klarm.types import Severity
from made_alerts import made_alert

HIGHER = ("kl", "higher")


def said(
    value: float, severity: Severity = "warning", detector: Detector | None = None
) -> Measured:
    by = detector or KLExplosionDetector()
    return Measured.of(made_alert({"kl": value}, severity, 7, by.name), by)


def closed(level: float = 1.0, quiet_rows: int = 3) -> Allowances:
    made = Allowances(1.5, quiet_rows)
    made.close({HIGHER: level}, "warning", frozenset())
    return made


def test_nothing_is_allowed_until_somebody_closes_or_accepts_it() -> None:
    """Every alert counts."""
    assert not Allowances(1.5, 3).allows(said(0.1))


@pytest.mark.parametrize(
    ("value", "allowed"), [(0.5, True), (1.49, True), (1.5, False), (math.nan, False)]
)
def test_a_closed_level_allows_values_up_to_a_factor(value: float, allowed: bool) -> None:
    """NaN is never allowed."""
    assert closed().allows(said(value)) is allowed


def test_a_higher_severity_or_another_kind_is_not_allowed() -> None:
    """Only this metric, in this direction, at this severity was closed."""
    assert not closed().allows(said(1.0, "critical"))
    assert not closed().allows(said(1.0)._replace(kind=("kl", "lower")))


def test_a_closed_kind_opens_again_after_enough_consecutive_quiet_rows() -> None:
    """A row that is not quiet restarts the count."""
    made = closed(quiet_rows=2)
    for quiet in (True, False, True):
        made.end_row(quiet=quiet)
    assert made.allows(said(1.0))
    made.end_row(quiet=True)
    assert not made.allows(said(1.0))
    assert not made


def test_an_accepted_level_applies_permanently_to_fixed_limits() -> None:
    """Detectors that learn get used to the level themselves."""
    made = Allowances(1.5, 1)
    made.accept({HIGHER: 2.0})
    made.end_row(quiet=True)
    made.lift([HIGHER])
    assert made.allows(said(2.9, "critical", KLBudgetDetector()))
    assert not made.allows(said(3.0, "critical", KLBudgetDetector()))
    assert not made.allows(said(2.0))
