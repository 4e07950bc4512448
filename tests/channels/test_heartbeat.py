"""The heartbeat: an address that is called, and never shown."""

from __future__ import annotations

import pytest

from klarm.channels.base import NotDelivered
from klarm.channels.heartbeat import HeartbeatChannel
from klarm.channels.message import Message
from klarm.settings import ConfigError, Secret
from pulse import Pulse


def test_it_calls_its_address(pulse: Pulse, message: Message) -> None:
    """Which is what `klarm test-alert` does."""
    channel = HeartbeatChannel(name="alive", url=Secret(f"{pulse.url}/ping/5f0c-secret"))
    assert channel.send(message, {}) == {}
    assert pulse.paths == ["/ping/5f0c-secret"]


def test_a_failure_does_not_show_the_address(pulse: Pulse) -> None:
    """Whoever has it can keep a dead run looking alive."""
    channel = HeartbeatChannel(name="alive", url=Secret(f"{pulse.url}/ping/5f0c-secret"))
    pulse.status = 404
    with pytest.raises(NotDelivered) as failure:
        channel.beat()
    assert "5f0c-secret" not in failure.value.reason
    assert "404 (check url)" in failure.value.reason


def test_it_needs_an_address_that_can_be_called() -> None:
    """Said before training starts."""
    with pytest.raises(ConfigError, match=r"alive.url must be set"):
        HeartbeatChannel(name="alive")
    with pytest.raises(ConfigError, match=r"alive.url must be a URL"):
        HeartbeatChannel(name="alive", url=Secret("hc-ping.com/5f0c"))
