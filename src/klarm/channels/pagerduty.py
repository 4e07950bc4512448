"""PagerDuty: triggers and resolves alerts through the Events API v2."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from klarm.channels.base import Channel, Receipt
from klarm.channels.http import check_url, post_json
from klarm.channels.message import Message
from klarm.channels.text import fit, is_link
from klarm.settings import ConfigError, Secret, setting

# https://developer.pagerduty.com/docs/send-alert-event; an event may have up to 512 KB.
MAX_SUMMARY, MAX_KEY = 1_024, 255
_MAX_DETAIL, _MAX_DETAILS = 4_096, 40
_SEVERITIES = ("critical", "error", "warning", "info")


@dataclass(kw_only=True, repr=False)
class PagerDutyChannel(Channel):
    """Triggers an alert for each incident, another when it becomes critical, and resolves both.

    Events that notify nobody are not sent to PagerDuty.
    """

    type: ClassVar[str] = "pagerduty"

    routing_key: Secret = setting(Secret(), "integration key of the service (Events API v2)")
    warning_severity: str = setting(
        "warning", "PagerDuty severity of a warning", choices=_SEVERITIES
    )
    critical_severity: str = setting(
        "critical", "PagerDuty severity of a critical incident", choices=_SEVERITIES
    )
    api_url: str = setting(
        "https://events.pagerduty.com", "URL (https://events.eu.pagerduty.com in the EU)"
    )

    def _check(self) -> None:
        if not self.routing_key:
            raise ConfigError(".routing_key must be set")
        check_url(self.api_url, "api_url")

    def send(self, message: Message, earlier: Mapping[str, str]) -> Receipt:
        """Trigger the alert, or resolve it, or both: PagerDuty cannot resolve an unknown alert.

        An escalation to critical is a separate alert, because a second trigger of an acknowledged
        alert pages nobody.
        """
        known = earlier.get("dedup_key", "")
        receipt = {"dedup_key": known or dedup_key(message)}
        if critical := earlier.get("critical_key", ""):
            receipt["critical_key"] = critical
        elif message.severity == "critical" and not known:
            receipt["critical_key"] = receipt["dedup_key"]
        elif message.severity == "critical" and message.event == "escalated":
            receipt["critical_key"] = f"{dedup_key(message)}-critical"
        # Without recovery, the alert stays open until a person closes it.
        over = message.test or message.over
        if not (over and known):
            self._trigger(message, receipt)
        if over:
            for key in sorted(set(receipt.values())):
                self._enqueue({"event_action": "resolve", "dedup_key": key})
        return receipt

    def _trigger(self, message: Message, receipt: Receipt) -> None:
        if message.severity == "critical":
            key = receipt.get("critical_key", receipt["dedup_key"])
            self._enqueue(pagerduty_event(message, self.critical_severity, key))
        else:
            self._enqueue(pagerduty_event(message, self.warning_severity, receipt["dedup_key"]))

    def _enqueue(self, event: dict[str, Any]) -> None:
        sent = {"routing_key": self.routing_key.reveal(), **event}
        post_json(self, f"{self.api_url.rstrip('/')}/v2/enqueue", sent).json(self)


def pagerduty_event(message: Message, severity: str, key: str) -> dict[str, Any]:
    """Return a message as a trigger event, without the routing key."""
    event: dict[str, Any] = {
        "event_action": "trigger",
        "dedup_key": key,
        "client": "klarm",
        "payload": {
            "summary": fit(f"{message.title}. {message.summary}".strip(), MAX_SUMMARY),
            "source": fit(message.run, MAX_KEY) or "klarm",
            "severity": severity,
            "component": message.signal,
            "group": fit(message.run, MAX_KEY),
            "custom_details": {
                fit(name, 256): fit(value, _MAX_DETAIL)
                for name, value in list(message.fields.items())[:_MAX_DETAILS]
            },
        },
    }
    if message.time:
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(message.time))
        event["payload"]["timestamp"] = at
    if message.link and not is_link(message.link):
        event["payload"]["custom_details"]["Link"] = fit(message.link, _MAX_DETAIL)
    elif message.link:
        event["client_url"] = message.link
        event["links"] = [{"href": message.link, "text": "the run"}]
    return event


def dedup_key(message: Message) -> str:
    """Return the deduplication key of an incident: its id, the same in all of its events."""
    return f"klarm/test/{message.id}" if message.test else message.id
