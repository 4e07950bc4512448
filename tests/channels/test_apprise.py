"""Apprise: the real package, to a server on loopback."""

from __future__ import annotations

import logging
from typing import Any

import msgspec
import pytest

from klarm.channels.apprise import AppriseChannel
from klarm.channels.base import NotDelivered
from klarm.channels.message import Message
from klarm.settings.fields import ConfigError
from klarm.settings.secret import Secret

# It imports all it has, old modules of the standard library included.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

TOKEN = "apprise-secret-path"


def channel(service: Any, **settings: Any) -> AppriseChannel:
    address = service.url.replace("http://", "json://")
    return AppriseChannel(name="other", url=Secret(f"{address}/{TOKEN}"), **settings)


def test_apprise_delivers(service: Any, message: Message) -> None:
    """With title, text and kind."""
    assert channel(service).send(message, {}) == {}
    (call,) = service.calls
    assert call.path.strip("/") == TOKEN
    assert (call.json["title"], call.json["type"]) == (message.title, "failure")
    assert "updates that are too large" in call.json["message"]
    channel(service).send(msgspec.structs.replace(message, event="resolved"), {})
    assert service.calls[1].json["type"] == "success"


def test_a_failure_is_worth_a_retry(service: Any, message: Message) -> None:
    """Apprise says that it failed, and a line about it."""
    service.always(500)
    with pytest.raises(NotDelivered, match=r"apprise could not deliver: .*500") as failed:
        channel(service).send(message, {})
    assert failed.value.retry is True


def test_our_timeout_is_its_timeout(service: Any, message: Message) -> None:
    """Apprise has one of its own otherwise."""
    service.answers[:] = [lambda handler: service.over.wait(20)]
    with pytest.raises(NotDelivered):
        channel(service, timeout_seconds=0.3).send(message, {})


def test_nothing_secret_is_logged(
    service: Any, message: Message, caplog: pytest.LogCaptureFixture
) -> None:
    """Although apprise and urllib3 write addresses at DEBUG."""
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.DEBUG, logger="apprise")
    channel(service).send(message, {})
    service.always(500)
    with pytest.raises(NotDelivered):
        channel(service).send(message, {})
    assert caplog.records
    assert TOKEN not in caplog.text


def test_an_address_apprise_does_not_know_is_refused_at_the_start() -> None:
    """Without showing it."""
    with pytest.raises(ConfigError, match=r"channels.other.url is not a URL") as refusal:
        AppriseChannel(name="other", url=Secret(f"nosuch://{TOKEN}"))
    assert TOKEN not in str(refusal.value)
