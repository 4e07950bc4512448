"""Looking up a name: the system may take its time, a channel does not wait for it for ever.

Covers sockets.py.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from klarm.channels.base import Channel, NotDelivered
from klarm.channels.email import EmailChannel
from klarm.channels.message import Message
from klarm.channels.webhook import WebhookChannel
from klarm.settings.fields import Names
from klarm.settings.secret import Secret

HOST = "slow.example.org"
_look_up = socket.getaddrinfo


class Resolver:
    """Stands in for the system's: one name hangs until it is let go, others are as they are."""

    def __init__(self) -> None:
        self.go, self.asked = threading.Event(), 0
        self.answer: Callable[[int], Any] = lambda port: _look_up(
            "127.0.0.1", port, type=socket.SOCK_STREAM
        )

    def __call__(self, host: str, port: int, *args: Any, **kwargs: Any) -> Any:
        if host != HOST:
            return _look_up(host, port, *args, **kwargs)
        self.asked += 1
        self.go.wait(20)
        return self.answer(port)


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Resolver]:
    slow = Resolver()
    monkeypatch.setattr(socket, "getaddrinfo", slow)
    yield slow
    slow.go.set()
    for thread in threading.enumerate():
        if thread.name.startswith("klarm-resolve"):
            thread.join(20)


def webhook(port: int = 9, timeout: float = 0.2) -> Channel:
    url = Secret(f"http://{HOST}:{port}/in")
    return WebhookChannel(name="mine", url=url, timeout_seconds=timeout)


def mail() -> Channel:
    return EmailChannel(
        name="mail",
        host=HOST,
        security="none",
        sender="a@example.org",
        recipients=Names(["b@example.org"]),
        timeout_seconds=0.2,
    )


@pytest.mark.parametrize("channel", [webhook, mail])
def test_a_name_that_is_not_resolved_in_time_is_a_failure(
    resolver: Resolver, message: Message, channel: Callable[[], Channel]
) -> None:
    """Worth a retry: the resolver may be well again later."""
    with pytest.raises(NotDelivered, match="its name was not resolved in time") as failed:
        channel().send(message, {})
    assert failed.value.retry is True


def test_retries_do_not_pile_up_behind_a_resolver_that_hangs(
    resolver: Resolver, message: Message
) -> None:
    """They wait for the answer that is on its way already."""
    for _ in range(3):
        with pytest.raises(NotDelivered):
            webhook().send(message, {})
    assert resolver.asked == 1
    assert sum(thread.name == f"klarm-resolve-{HOST}" for thread in threading.enumerate()) == 1


def test_a_name_is_looked_up_anew_when_the_resolver_is_well_again(
    resolver: Resolver, service: Any, message: Message
) -> None:
    """An address may change, so no answer is kept."""
    port = int(service.url.rpartition(":")[2])
    with pytest.raises(NotDelivered):
        webhook(port).send(message, {})
    resolver.go.set()
    for _ in range(2):
        webhook(port, timeout=20).send(message, {})
    assert len(service.calls) == 2
    assert 2 <= resolver.asked <= 3  # the first may have had the one that was on its way


def test_what_the_resolver_says_is_reported(resolver: Resolver, message: Message) -> None:
    """By whichever way it fails."""

    def unknown(port: int) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    resolver.answer = unknown
    resolver.go.set()
    with pytest.raises(NotDelivered, match="its name cannot be resolved"):
        webhook(timeout=20).send(message, {})


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:This process")  # that it has threads: that is the point
def test_a_child_does_not_wait_for_a_lookup_of_its_parent(
    resolver: Resolver, service: Any, message: Message
) -> None:
    """Whose thread it has not."""
    with pytest.raises(NotDelivered):
        webhook().send(message, {})
    child = os.fork()
    if child == 0:
        code = 1
        try:
            resolver.go.set()
            webhook(int(service.url.rpartition(":")[2]), timeout=20).send(message, {})
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_without_a_thread_the_name_is_looked_up_all_the_same(
    monkeypatch: pytest.MonkeyPatch, message: Message
) -> None:
    """As at the end of a script, where some Pythons start none."""

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(NotDelivered, match="refused"):
        WebhookChannel(name="mine", url=Secret("http://localhost:9/in")).send(message, {})
