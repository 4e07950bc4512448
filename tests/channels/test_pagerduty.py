"""PagerDuty: an alert for each incident, triggered and resolved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from example_events import example_message
from klarm.channels import pagerduty
from klarm.channels.base import NotDelivered
from klarm.channels.message import ENDINGS, Message
from klarm.channels.pagerduty import PagerDutyChannel, dedup_key, pagerduty_event
from klarm.channels.text import width
from klarm.settings.fields import ConfigError
from klarm.settings.secret import Secret

KEY = "R0" * 16
TAKEN = {"status": "success", "message": "Event processed", "dedup_key": "x"}


ID = "kq7x2abc"


@pytest.fixture
def message(message: Message) -> Message:
    return msgspec.structs.replace(message, id=ID)


def channel(service: Any, **settings: Any) -> PagerDutyChannel:
    return PagerDutyChannel(name="pager", routing_key=Secret(KEY), api_url=service.url, **settings)


def test_an_alert_is_triggered_and_resolved(service: Any, message: Message) -> None:
    """Under one key: the id of the incident."""
    service.always(202, TAKEN)
    receipt = channel(service).send(message, {})
    assert receipt == {"dedup_key": ID, "critical_key": ID}
    over = msgspec.structs.replace(message, event="resolved")
    assert channel(service).send(over, receipt) == receipt
    trigger, resolve = service.calls
    assert (trigger.method, trigger.path) == ("POST", "/v2/enqueue")
    sent = trigger.json
    assert (sent["routing_key"], sent["event_action"]) == (KEY, "trigger")
    assert sent["payload"]["severity"] == "critical"
    assert sent["payload"]["summary"].startswith("grpo-7b: kl critical, began at step 148")
    assert sent["payload"]["timestamp"] == "2025-11-15T10:00:00Z"
    assert sent["payload"]["custom_details"]["To do"].startswith("Lower the learning rate")
    assert resolve.json == {
        "routing_key": KEY,
        "event_action": "resolve",
        "dedup_key": ID,
    }


def actions(service: Any) -> list[str]:
    assert {call.json["dedup_key"] for call in service.calls} == {ID}
    return [call.json["event_action"] for call in service.calls]


def test_an_end_without_recovery_leaves_the_alert_open(service: Any, message: Message) -> None:
    """The metric stays near its worst: a person closes it."""
    service.always(202, TAKEN)
    title = "grpo-7b: kl went quiet, but has not recovered, at step 300"
    quiet = msgspec.structs.replace(message, event="resolved", recovered=False, title=title)
    for earlier in ({"dedup_key": ID, "critical_key": ID}, {}):
        assert channel(service).send(quiet, earlier) == {"dedup_key": ID, "critical_key": ID}
    assert actions(service) == ["trigger", "trigger"]
    assert service.calls[0].json["payload"]["summary"].startswith(title)


@pytest.mark.parametrize("how", ENDINGS)
def test_an_incident_is_resolved_however_it_ended(service: Any, message: Message, how: str) -> None:
    """Its metric need not be back: since format 2, nothing is resolved that a person must see."""
    service.always(202, TAKEN)
    over = msgspec.structs.replace(message, event="resolved", recovered=False, ending=how)
    channel(service).send(over, {"dedup_key": ID})
    assert actions(service) == ["resolve"]


def test_a_rise_to_critical_is_an_alert_of_its_own(service: Any, message: Message) -> None:
    """A second trigger of an alert that was acknowledged pages nobody. Both end together."""
    service.always(202, TAKEN)
    receipt: dict[str, str] = {}
    for event, severity in (
        ("opened", "warning"),
        ("escalated", "warning"),
        ("escalated", "critical"),
        ("escalated", "critical"),
        ("resolved", "critical"),
    ):
        now = msgspec.structs.replace(message, event=event, severity=severity)
        receipt = channel(service).send(now, receipt)
    assert [(call.json["event_action"], call.json["dedup_key"]) for call in service.calls] == [
        ("trigger", ID),
        ("trigger", ID),
        ("trigger", f"{ID}-critical"),
        ("trigger", f"{ID}-critical"),
        ("resolve", ID),
        ("resolve", f"{ID}-critical"),
    ]


def test_an_alert_of_klarm_0_1_keeps_its_key(service: Any, message: Message) -> None:
    """An upgrade while an incident is open does not leave its alert open for good."""
    service.always(202, TAKEN)
    over = msgspec.structs.replace(message, event="resolved")
    channel(service).send(over, {"dedup_key": "klarm/grpo-7b/kl"})
    assert [call.json["dedup_key"] for call in service.calls] == ["klarm/grpo-7b/kl"]


def test_an_incident_that_was_over_before_it_was_sent_is_triggered_first(
    service: Any, message: Message
) -> None:
    """PagerDuty ignores that an alert is resolved which it does not know."""
    service.always(202, TAKEN)
    over = msgspec.structs.replace(message, event="resolved")
    assert channel(service).send(over, {}) == {"dedup_key": ID, "critical_key": ID}
    assert actions(service) == ["trigger", "resolve"]


def test_a_resolution_that_fails_is_tried_again_from_the_start(
    service: Any, message: Message, answered: Callable[..., Any]
) -> None:
    """The key makes one alert of two triggers."""
    service.answers[:] = [answered(202, TAKEN), answered(500), answered(202, TAKEN)]
    over = msgspec.structs.replace(message, event="resolved")
    with pytest.raises(NotDelivered) as failed:
        channel(service).send(over, {})
    assert failed.value.retry is True
    channel(service).send(over, {})
    assert actions(service) == ["trigger", "resolve", "trigger", "resolve"]


def test_a_test_does_not_stay_open(service: Any, message: Message) -> None:
    """Nobody would resolve it."""
    service.always(202, TAKEN)
    channel(service).send(msgspec.structs.replace(message, test=True), {})
    sent = [(call.json["event_action"], call.json["dedup_key"]) for call in service.calls]
    key = "klarm/test/kq7x2abc"
    assert sent == [("trigger", key), ("resolve", key)]


@pytest.mark.parametrize(("severity", "there"), [("warning", "info"), ("critical", "error")])
def test_what_severities_are_there_can_be_set(
    service: Any, message: Message, severity: str, there: str
) -> None:
    """Some do not want to be woken by a warning."""
    service.always(202, TAKEN)
    set_so = channel(service, warning_severity="info", critical_severity="error")
    set_so.send(msgspec.structs.replace(message, severity=severity), {})
    assert service.calls[0].json["payload"]["severity"] == there


def test_a_test_has_a_key_of_its_own(message: Message) -> None:
    """It must not resolve what is real."""
    assert dedup_key(msgspec.structs.replace(message, test=True)) == "klarm/test/kq7x2abc"


def test_a_wrong_key_is_reported_and_not_tried_again(service: Any, message: Message) -> None:
    """Without the key."""
    service.always(400, {"status": "invalid event", "errors": [f"bad routing_key {KEY}"]})
    with pytest.raises(NotDelivered, match="bad routing_key …") as failed:
        channel(service).send(message, {})
    assert failed.value.retry is False


@given(st.text(max_size=3000), st.text(max_size=3000), st.dictionaries(st.text(), st.text()))
def test_an_event_keeps_within_the_limits(run: str, summary: str, fields: dict[str, str]) -> None:
    """Of PagerDuty's documentation, whatever the texts are."""
    message = example_message(
        run=run,
        id="k3f7q2ab",
        title=run,
        body="",
        summary=summary,
        fields=fields,
    )
    event = pagerduty_event(message, "warning", dedup_key(message))
    assert 1 <= width(event["dedup_key"]) <= pagerduty.MAX_KEY
    assert 1 <= width(event["payload"]["summary"]) <= pagerduty.MAX_SUMMARY
    assert event["payload"]["source"]
    assert len(msgspec.json.encode(event)) < 512_000


def test_without_a_key_there_is_no_channel() -> None:
    """Said before training starts."""
    with pytest.raises(ConfigError, match=r"channels.pager.routing_key must be set"):
        PagerDutyChannel(name="pager")
