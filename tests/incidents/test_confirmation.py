"""Confirmation: how many rows in alert are needed, and which severity they confirm."""

from __future__ import annotations

import math

from klarm.detectors import KLExplosionDetector
from klarm.incidents.confirmation import Confirmation, Confirmed, is_more_severe
from klarm.incidents.measured import Measured
from klarm.types import Alert, Severity
from made_alerts import made_alert

BY = KLExplosionDetector()


def alert(severity: Severity = "warning", value: float = 1.0, *, decisive: bool = False) -> Alert:
    return made_alert({"kl": value}, severity, 7, BY.name, decisive=decisive)


class Rows:
    """Rows of one detector that needs three for confirmation."""

    def __init__(self) -> None:
        self.confirmation = Confirmation({BY.name: 3})

    def add(self, *alerts: Alert) -> Confirmed | None:
        for one in alerts:
            self.confirmation.add(one)
        confirmed = self.confirmation.confirmed([Measured.of(one, BY) for one in alerts])
        self.confirmation.end_row([BY.name])
        return confirmed


def test_the_third_consecutive_row_confirms() -> None:
    """The result has their number."""
    rows = Rows()
    assert [rows.add(alert()), rows.add(alert())] == [None, None]
    confirmed = rows.add(alert())
    assert confirmed is not None
    assert (confirmed.severity, confirmed.reason, confirmed.rows) == ("warning", "confirmed", 3)


def test_a_quiet_row_restarts_the_count() -> None:
    """Only consecutive rows confirm."""
    rows = Rows()
    for said in ([alert()], [alert()], [], [alert()], [alert()]):
        assert rows.add(*said) is None


def test_one_critical_row_among_warnings_confirms_a_warning() -> None:
    """Critical needs as many rows of its own."""
    rows = Rows()
    rows.add(alert())
    rows.add(alert())
    confirmed = rows.add(alert("critical"))
    assert confirmed is not None
    assert confirmed.severity == "warning"
    rows.add(alert("critical"))
    confirmed = rows.add(alert("critical"))
    assert confirmed is not None
    assert (confirmed.severity, confirmed.rows) == ("critical", 3)


def test_a_decisive_alert_is_confirmed_immediately() -> None:
    """It says whether that is because a value is not finite."""
    for value, reason in ((1.0, "decisive"), (math.nan, "not_finite")):
        confirmed = Rows().add(alert("critical", value, decisive=True))
        assert confirmed is not None
        assert (confirmed.severity, confirmed.reason, confirmed.rows) == ("critical", reason, None)


def test_two_alerts_of_one_row_count_once() -> None:
    """Several dicts may make up a row."""
    rows = Rows()
    assert rows.add(alert(), alert(), alert()) is None


def test_a_detector_is_sure_of_its_own_rows_only() -> None:
    """Or if it is decisive."""
    rows = Rows()
    rows.add(alert())
    assert not rows.confirmation.is_sure(alert())
    assert rows.confirmation.is_sure(alert(decisive=True))
    rows.add(alert())
    rows.add(alert())
    assert rows.confirmation.is_sure(alert())


def test_only_critical_is_more_severe_than_warning() -> None:
    """Equal is not more severe."""
    pairs = [(one, other) for one in ("warning", "critical") for other in ("warning", "critical")]
    assert [pair for pair in pairs if is_more_severe(*pair)] == [("critical", "warning")]
