"""PagerDuty: an alert that is triggered and resolved through the Events API v2."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from klarm.channels.base import Channel, Receipt
from klarm.channels.http import check_url, post_json
from klarm.channels.message import Message
from klarm.channels.text import fit, is_link, width
from klarm.settings import ConfigError, Secret, setting

# https://developer.pagerduty.com/docs/send-alert-event; the whole may have 512 KB.
MOST_SUMMARY, MOST_KEY = 1_024, 255
_MOST_DETAIL, _MOST_DETAILS = 4_096, 40
_SEVERITIES = ("critical", "error", "warning", "info")


@dataclass(kw_only=True, repr=False)
class PagerDutyChannel(Channel):
    """Triggers one alert a run and signal, raises it on escalation, resolves it on recovery."""

    type: ClassVar[str] = "pagerduty"
    one_a_signal: ClassVar[bool] = True

    routing_key: Secret = setting(Secret(), "integration key of the service (Events API v2)")
    warning_severity: str = setting("warning", "what a warning is there", choices=_SEVERITIES)
    critical_severity: str = setting("critical", "what a critical is there", choices=_SEVERITIES)
    api_url: str = setting(
        "https://events.pagerduty.com", "where it is (https://events.eu.pagerduty.com in the EU)"
    )

    def _check(self) -> None:
        if not self.routing_key:
            raise ConfigError(".routing_key must be set")
        check_url(self.api_url, "api_url")

    def send(self, message: Message, earlier: Mapping[str, str]) -> Receipt:
        """Trigger the alert, or resolve it, or both: what is unknown there cannot be resolved."""
        severity = (
            self.warning_severity if message.severity == "warning" else self.critical_severity
        )
        known = earlier.get("dedup_key", "")
        key = known or dedup_key(message)
        # Without recovery it stays open, for a person to close.
        over = message.test or (message.event == "resolved" and message.recovered)
        if not (over and known):
            self._enqueue(pagerduty_event(message, severity, key))
        if over:
            self._enqueue({"event_action": "resolve", "dedup_key": key})
        return {"dedup_key": key}

    def _enqueue(self, event: dict[str, Any]) -> None:
        sent = {"routing_key": self.routing_key.reveal(), **event}
        post_json(self, f"{self.api_url.rstrip('/')}/v2/enqueue", sent).json(self)


def pagerduty_event(message: Message, severity: str, key: str) -> dict[str, Any]:
    """Return a message as an event that triggers, without the key of the service."""
    test = "Test: " if message.test else ""
    event: dict[str, Any] = {
        "event_action": "trigger",
        "dedup_key": key,
        "client": "klarm",
        "payload": {
            "summary": fit(f"{test}{message.title}. {message.summary}".strip(), MOST_SUMMARY),
            "source": fit(message.run, MOST_KEY) or "klarm",
            "severity": severity,
            "component": message.signal,
            "group": fit(message.run, MOST_KEY),
            "custom_details": {
                fit(name, 256): fit(value, _MOST_DETAIL)
                for name, value in list(message.fields.items())[:_MOST_DETAILS]
            },
        },
    }
    if message.time:
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(message.time))
        event["payload"]["timestamp"] = at
    if message.link and not is_link(message.link):
        event["payload"]["custom_details"]["Link"] = fit(message.link, _MOST_DETAIL)
    elif message.link:
        event["client_url"] = message.link
        event["links"] = [{"href": message.link, "text": "the run"}]
    return event


def dedup_key(message: Message) -> str:
    """Return what stands for a run and a signal; the same in every event about them."""
    key = f"klarm/{'test/' if message.test else ''}{message.run}/{message.signal}"
    if width(key) <= MOST_KEY:
        return key
    return f"klarm/{hashlib.sha256(key.encode()).hexdigest()}"
