"""The shared words: an incident's state, and the orders that others rely on."""

from __future__ import annotations

from typing import get_args

import pytest

from cases import over
from klarm.incidents.checkpoints import Broken, unsafe_spans
from klarm.types import (
    METRIC_AFTER,
    RINGING,
    SEVERITIES,
    EventKind,
    Incident,
    Resolution,
    Severity,
    State,
)
from made_alerts import made_alert


@over("state", get_args(State))
def test_what_is_not_resolved_is_open(state: State) -> None:
    """Settled, or ended with its run; one that is pending has not opened yet."""
    alert = made_alert({"kl": 9.0})
    incident = Incident("kl", "kl", 3, state, "critical", [], 1, 3, alert, 9.0, "higher")
    assert incident.is_open == (state in ("open", "settled", "ended"))


def test_severities_rise() -> None:
    """Their order is compared wherever the higher one counts."""
    assert get_args(Severity) == SEVERITIES == ("warning", "critical")


def test_people_are_notified_of_three_kinds_of_events() -> None:
    """The others change what was sent before."""
    assert set(RINGING) == {"opened", "escalated", "resolved"} <= set(get_args(EventKind))


def test_every_resolution_says_what_it_means_for_the_metric() -> None:
    """Otherwise klarm might suggest a checkpoint that was saved while the metric was still bad."""
    different = set(get_args(Resolution)) ^ METRIC_AFTER.keys()
    assert different == set(), "Resolution and METRIC_AFTER of klarm/types.py differ in these"


@pytest.mark.parametrize("reason", [r for r, after in METRIC_AFTER.items() if after == "bad"])
def test_checkpoints_are_unsafe_until_a_metric_that_may_be_bad_is_back(reason: str) -> None:
    """However the incident was resolved."""
    alert = made_alert({"kl": 9.0})
    incident = Incident("kl", "kl", 3, "resolved", "critical", [], 1, 3, alert, 9.0, "higher")
    incident.id, incident.opened, incident.ended, incident.reason = "ka", 3, 20, reason
    assert unsafe_spans([Broken.of(incident)]) == [(3, None)]
    incident.back = 30
    assert unsafe_spans([Broken.of(incident)]) == [(3, 30)]
