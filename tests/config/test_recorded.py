"""The channels of a run as its journal records them."""

from __future__ import annotations

import pytest

from klarm.channels.base import NotDelivered
from klarm.channels.message import Message
from klarm.config import load, recorded_routes

SLACK = {"webhook_url": "http://127.0.0.1:9/token"}
BOT = {"type": "slack", "bot_token": "xoxb-1", "channel": "#runs"}


def test_a_recorded_channel_takes_the_same_messages_as_the_configured_one() -> None:
    """The journal holds no secret, but it holds what decides about messages."""
    channels = {
        "slack": {**SLACK, "severity": "critical", "signals": ["kl"], "runs": ["grpo-*"]},
        "bot": BOT,
        "hook": {"type": "webhook", "url": "http://127.0.0.1:9"},
        "off": {"type": "webhook", "url": "http://127.0.0.1:9", "enabled": False},
    }
    settings = load(None, {"channels": channels})
    recorded = recorded_routes(settings.as_dict())
    configured = settings.channels()
    assert [route.channel.name for route in recorded] == ["slack", "bot", "hook"]
    for one, other in zip(recorded, configured, strict=True):
        assert one.channel.updates == other.channel.updates
        assert (one.severity, one.signals, one.runs) == (other.severity, other.signals, other.runs)
        assert (one.repeat_after, one.repeat_severity) == (4.0, "critical")
    assert [route.channel.updates for route in recorded] == ["none", "edits", "posts"]


def test_a_recorded_channel_cannot_send(message: Message) -> None:
    """Its secrets are not recorded."""
    (route,) = recorded_routes(load(None, {"channels": {"slack": SLACK}}).as_dict())
    with pytest.raises(NotDelivered) as failure:
        route.channel.send(message, {})
    assert not failure.value.retry


@pytest.mark.parametrize("config", [{}, {"channels": None}, {"channels": [1]}])
def test_a_journal_without_channels_has_none(config: dict[str, object]) -> None:
    """As the first line that is a substitute for a damaged one."""
    assert recorded_routes(config) == []
