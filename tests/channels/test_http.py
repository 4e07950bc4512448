"""HTTP: whatever a server does, a request ends in time, with an answer or a reason."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler as Handler
from pathlib import Path
from typing import Any

import pytest

from cases import over
from klarm.channels.base import NotDelivered
from klarm.channels.http import check_url, retry_after
from klarm.channels.message import Message
from klarm.channels.webhook import WebhookChannel
from klarm.config.layers import load
from klarm.settings.fields import ConfigError
from klarm.settings.secret import Secret

PATH = "/services/T000/B000/very-secret-token"


def channel(url: str, **settings: Any) -> WebhookChannel:
    return WebhookChannel(name="mine", url=Secret(url + PATH), **settings)


def failure(
    service: Any, message: Message, *answers: Callable[[Handler], object], **settings: Any
) -> NotDelivered:
    if answers:
        service.answers[:] = answers
    with pytest.raises(NotDelivered) as failed:
        channel(service.url, **settings).send(message, {})
    assert "very-secret-token" not in str(failed.value)
    assert failed.value.reason == str(failed.value)
    return failed.value


@over(
    "status, retry",
    [
        *((status, False) for status in (400, 401, 403, 404, 410, 413, 422)),
        *((status, True) for status in (408, 425, 429, 500, 502, 503, 504)),
    ],
)
def test_the_status_says_whether_another_try_may_help(
    service: Any, message: Message, status: int, retry: bool
) -> None:
    """Mistakes stay; a service that is busy or broken recovers. The reason quotes its answer."""
    service.always(status, b"invalid_payload")
    failed = failure(service, message)
    assert failed.retry is retry
    assert failed.after_seconds is None
    assert f"http://127.0.0.1:{service.url.rpartition(':')[2]}/… answered {status}" in failed.reason
    assert "invalid_payload" in failed.reason


def test_how_long_to_wait_is_read_in_seconds_and_as_a_date(service: Any, message: Message) -> None:
    """Both are allowed in Retry-After."""
    service.always(429, Retry_After="30")
    assert failure(service, message).after_seconds == 30.0
    service.always(503, Retry_After=formatdate(time.time() + 3600, usegmt=True))
    seconds = failure(service, message).after_seconds
    assert seconds is not None
    assert 3000 < seconds <= 3600


@over(
    "value, seconds",
    [
        (None, None),
        ("0", 0.0),
        ("1.5", 1.5),
        ("-5", 0.0),
        ("soon", None),
        ("", None),
        ("nan", None),
        ("1e300", 86400.0),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 86400.0),
        ("Xxx, 99 Foo 0000 99:99:99 GMT", None),
    ],
)
def test_a_strange_wish_is_no_wish(value: str | None, seconds: float | None) -> None:
    """It comes from outside; nothing in it makes klarm wait for ever or fail."""
    assert retry_after(value, now=1_700_000_000.0) == seconds


@over(
    "type_, settings, named",
    [
        ("slack", {"webhook_url": "{url}/services/T0/B0/x"}, "webhook_url"),
        (
            "slack",
            {"bot_token": "xoxb-1", "channel": "C1", "api_url": "{url}"},
            "bot_token, api_url",
        ),
        ("discord", {"webhook_url": "{url}/api/webhooks/1/x"}, "webhook_url"),
        ("pagerduty", {"routing_key": "0a1b2c3d", "api_url": "{url}"}, "routing_key, api_url"),
        ("webhook", {"url": "{url}/in"}, "url"),
        ("webhook", {"url": "{url}/in", "bearer_token": "t0ken"}, "url, bearer_token"),
    ],
)
@over("status", [401, 403, 404, 410])
def test_a_refused_login_names_the_setting_to_check(  # noqa: PLR0917
    service: Any, message: Message, type_: str, settings: dict[str, str], named: str, status: int
) -> None:
    """That which holds the address or the token, however much the service says."""
    given = {name: value.replace("{url}", service.url) for name, value in settings.items()}
    config = load(overrides={"channels": {"mine": {"type": type_, **given}}})
    (route,) = config.channels()
    service.always(status, b"no " * 1000)
    with pytest.raises(NotDelivered, match=rf"check {named}\)") as failed:
        route.channel.send(message, {})
    assert failed.value.retry is False
    service.always(400, b"no")
    with pytest.raises(NotDelivered) as failed:
        route.channel.send(message, {})
    assert "check" not in failed.value.reason


def test_a_redirect_is_a_failure_and_is_not_followed(
    service: Any, message: Message, answered: Callable[..., Any]
) -> None:
    """The body may be meant for one host only."""
    redirect = answered(302, b"", Location=f"{service.url}/elsewhere")
    failed = failure(service, message, redirect)
    assert failed.retry is False
    assert "redirect" in failed.reason
    assert [call.path for call in service.calls] == [PATH]


def hang(service: Any) -> Callable[[Handler], None]:
    return lambda handler: service.over.wait(20)


def drip(service: Any, head: bytes, byte: bytes) -> Callable[[Handler], None]:
    """Send a byte every few milliseconds, for far longer than a request may take."""

    def send(handler: Handler) -> None:
        handler.wfile.write(head)
        while not service.over.wait(0.01):
            handler.wfile.write(byte)
            handler.wfile.flush()

    return send


@pytest.mark.parametrize(
    ("head", "byte"),
    [
        (b"HTTP/1.1 ", b"2"),
        (b"HTTP/1.1 200 OK\r\nX-Long: ", b"x"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n", b"x"),
    ],
    ids=["status", "headers", "body"],
)
def test_a_server_that_drips_is_left_when_the_time_is_up(
    service: Any, message: Message, head: bytes, byte: bytes
) -> None:
    """Although every single byte comes in time."""
    failed = failure(service, message, drip(service, head, byte), timeout_seconds=0.3)
    assert failed.retry is True
    assert "no answer in time" in failed.reason


def test_a_server_that_hangs_is_left_when_the_time_is_up(service: Any, message: Message) -> None:
    """It may be well again later."""
    failed = failure(service, message, hang(service), timeout_seconds=0.3)
    assert failed.retry is True
    assert "no answer in time" in failed.reason


def test_a_secured_server_that_drips_is_left_too(
    tls_service: Any, message: Message, ca_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TLS has a socket of its own, and the same last moment."""
    monkeypatch.setenv("SSL_CERT_FILE", str(ca_file))
    dripping = drip(tls_service, b"HTTP/1.1 200 OK\r\nX-Long: ", b"x")
    failed = failure(tls_service, message, dripping, timeout_seconds=1.0)
    assert "no answer in time" in failed.reason


def close_half_way(handler: Handler) -> None:
    handler.wfile.write(b"HTTP/1.1 20")
    handler.close_connection = True


def garbage(handler: Handler) -> None:
    handler.wfile.write(b"\x00\xff SMTP? no.\r\n\r\n" * 10)
    handler.close_connection = True


def bad_chunks(handler: Handler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello")
    handler.close_connection = True


@pytest.mark.parametrize("answer", [close_half_way, garbage, bad_chunks])
def test_a_broken_answer_is_worth_a_retry(
    service: Any, message: Message, answer: Callable[[Handler], None]
) -> None:
    """Whether the message arrived is not known."""
    assert failure(service, message, answer).retry is True


def test_of_a_huge_answer_only_the_beginning_is_read(service: Any, message: Message) -> None:
    """And only one line of it is quoted."""
    service.always(500, b"x" * 5_000_000)
    failed = failure(service, message)
    assert len(failed.reason) <= 300


def test_what_a_service_echoes_is_reported_without_secrets(service: Any, message: Message) -> None:
    """And without control characters, which a terminal might obey."""
    service.always(400, f"no such hook {PATH}\r\n\x1b[2Jvery-secret-token".encode())
    reason = failure(service, message).reason
    assert "no such hook" in reason
    assert reason.isprintable()


def test_nobody_there_is_worth_a_retry(message: Message) -> None:
    """Neither a port without a server nor a name without an address is a mistake for ever."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(NotDelivered, match="refused the connection") as failed:
            channel(f"http://127.0.0.1:{port}").send(message, {})
    assert failed.value.retry is True
    with pytest.raises(NotDelivered, match="cannot be resolved") as failed:
        channel("http://no-such-host.invalid").send(message, {})
    assert failed.value.retry is True


def test_a_certificate_nobody_vouches_for_is_refused(tls_service: Any, message: Message) -> None:
    """Nothing is sent there."""
    failed = failure(tls_service, message)
    assert "certificate is not trusted" in failed.reason
    assert tls_service.calls == []


def test_a_certificate_of_a_trusted_authority_is_taken(
    tls_service: Any, message: Message, ca_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SSL_CERT_FILE names one, as everywhere."""
    monkeypatch.setenv("SSL_CERT_FILE", str(ca_file))
    channel(tls_service.url).send(message, {})
    assert [call.path for call in tls_service.calls] == [PATH]


def test_the_proxy_of_the_environment_is_used(
    service: Any, message: Message, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And left out for hosts that no_proxy names."""
    monkeypatch.setenv("http_proxy", service.url)
    channel("http://somewhere.invalid").send(message, {})
    assert service.calls[0].path == f"http://somewhere.invalid{PATH}"
    monkeypatch.setenv("no_proxy", "somewhere.invalid")
    with pytest.raises(NotDelivered, match="cannot be resolved"):
        channel("http://somewhere.invalid").send(message, {})


def test_a_proxy_that_refuses_is_reported(
    service: Any, message: Message, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For https it is asked to pass the connection on, which ours does not do."""
    monkeypatch.setenv("https_proxy", service.url)
    with pytest.raises(NotDelivered, match="the proxy refused") as failed:
        channel("https://somewhere.invalid").send(message, {})
    assert failed.value.retry is True


@over(
    "address",
    [
        "hooks.slack.com/services/very-secret-token",
        "ftp://host/very-secret-token",
        "https:///very-secret-token",
        "https://host:port/very-secret-token",
        "https://ho st/very-secret-token",
        "https://host/very-secret-token\r\nHost: other",
        "https://hönt/very-secret-token",
        "https://[::1/very-secret-token",
        "file:///etc/very-secret-token",
    ],
)
def test_what_is_no_address_is_refused_at_the_start(address: str) -> None:
    """Without showing it: the rest of it may be right, and secret."""
    with pytest.raises(ConfigError, match="must be a URL") as refusal:
        check_url(address, "url")
    assert "very-secret-token" not in str(refusal.value)


def test_what_an_address_may_begin_with_is_said_as_it_is() -> None:
    """Both are called, as far away as it may be."""
    with pytest.raises(ConfigError, match=r"must be a URL that begins with https:// or http:"):
        check_url("hooks.slack.com/x", "url")
    check_url("http://alerts.example.org/x", "url")


@pytest.mark.parametrize("login", ["user:very-secret-token@", "very-secret-token@", "@"])
def test_a_login_in_an_address_is_refused_at_the_start(login: str) -> None:
    """With what to do instead, and without showing it."""
    with pytest.raises(ConfigError) as refusal:
        WebhookChannel(name="mine", url=Secret(f"https://{login}alerts.example.org/in"))
    shown = str(refusal.value)
    assert shown.startswith("channels.mine.url contains a login (name:password@host), which is not")
    assert "bearer_token" in shown
    assert "very-secret-token" not in shown
    assert "example.org" not in shown


def test_a_message_is_sent_with_our_name_and_closes_after_it(
    service: Any, message: Message
) -> None:
    """No connection is kept: incidents are rare."""
    channel(service.url).send(message, {})
    headers: Mapping[str, str] = service.calls[0].headers
    assert headers["User-Agent"].startswith("klarm/")
    assert headers["Connection"] == "close"
