"""The shared words: an incident's state, and the orders that others rely on."""

from __future__ import annotations

from typing import get_args

import pytest

from klarm.types import RINGING, SEVERITIES, Alert, EventKind, Incident, Severity, State


@pytest.mark.parametrize("state", get_args(State))
def test_what_is_not_resolved_is_open(state: State) -> None:
    """Settled, or ended with its run; one that is pending has not opened yet."""
    alert = Alert("kl_explosion", "critical", 3, "boom", {"kl": 9.0}, "stop")
    incident = Incident("kl", "kl", 3, state, "critical", [], 1, 3, alert, 9.0, "higher")
    assert incident.is_open == (state in ("open", "settled", "ended"))


def test_severities_rise() -> None:
    """Their order is compared wherever the higher one counts."""
    assert get_args(Severity) == SEVERITIES == ("warning", "critical")


def test_people_are_notified_of_three_kinds_of_events() -> None:
    """The others change what was sent before."""
    assert set(RINGING) == {"opened", "escalated", "resolved"} <= set(get_args(EventKind))
