"""One HTTP request of a channel: limited in time and size, verified, without redirects.

It uses the standard library, so that klarm adds no HTTP client to the user's environment.
"""

from __future__ import annotations

import http.client
import math
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from klarm.channels.base import Channel
from klarm.channels.sockets import NotResolvedError, connector, end_by, seconds_until, tls_context
from klarm.settings import ConfigError, shown
from klarm.version import __version__

_MAX_ANSWER = 64 * 1024
_MAX_SEARCHED, _MAX_SHOWN = 4_096, 200  # of an error answer
# The service is busy, so a retry may succeed.
_RETRY_STATUSES = {408, 425, 429}
# Access is denied, or there is nothing at the URL.
_ACCESS_STATUSES = {401, 403, 404, 410}
_MAX_WAIT = 24 * 3600.0


class Answer(NamedTuple):
    """The answer of a service."""

    status: int
    headers: Mapping[str, str]
    body: bytes  # only the beginning, if it is very long

    def json(self, channel: Channel) -> dict[str, Any]:
        """Return the JSON object in the body, or raise NotDelivered: the API did not answer."""
        try:
            found = msgspec.json.decode(self.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise channel.not_delivered(
                f"answered {self.status} with something that is not JSON", retry=True
            )
        return found


def request(
    channel: Channel,
    method: str,
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    *,
    accept: tuple[int, ...] = (),
) -> Answer:
    """Return the answer of a service that accepted the request; raise NotDelivered otherwise.

    Statuses in `accept` are returned as well. Exceptions contain no secret of the channel.
    """
    ends = time.monotonic() + channel.timeout_seconds
    where = shown(url)
    answer, failed = None, ""
    try:
        answer = _exchange(method, url, body, headers, ends)
    except (OSError, http.client.HTTPException, ValueError) as error:
        failed = why(error)
    if answer is None:  # raised here, so that it does not refer to errors or sockets of urllib
        raise channel.not_delivered(f"{where}: {failed}", retry=True)
    if 200 <= answer.status < 300 or answer.status in accept:
        return answer
    if 300 <= answer.status < 400:
        reason = f"{where} answered {answer.status}, a redirect, which is not followed"
        raise channel.not_delivered(reason, retry=False)
    beginning = answer.body[:_MAX_SEARCHED].decode("utf-8", "replace")
    said = channel.hide_secrets(beginning)[:_MAX_SHOWN]
    status = f"{answer.status}"
    if answer.status in _ACCESS_STATUSES and channel.to_check:  # first: the rest may be cut off
        status += f" (check {channel.to_check})"
    raise channel.not_delivered(
        f"{where} answered {status}: {said or http.client.responses.get(answer.status)}",
        retry=answer.status in _RETRY_STATUSES or answer.status >= 500,
        after_seconds=retry_after(answer.headers.get("Retry-After"), time.time()),
    )


def post_json(
    channel: Channel, url: str, content: object, headers: Mapping[str, str] | None = None
) -> Answer:
    """Post an object as JSON."""
    kind = {"Content-Type": "application/json; charset=utf-8"}
    return request(channel, "POST", url, msgspec.json.encode(content), {**kind, **(headers or {})})


def check_url(value: str, name: str, *, login_goes: str = "") -> None:
    """Raise ConfigError, without showing the value, unless it is a valid HTTP URL.

    A login in the URL would be mistaken for a part of the host. `login_goes` says where a login
    belongs instead.
    """
    try:
        parts = urlsplit(value)
        login = "@" in parts.netloc
        good = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        good = login = False
    if login:
        raise ConfigError(
            f".{name} contains a login (name:password@host), which is not supported"
            f"{login_goes} (what was given is not shown)"
        )
    if not good or not value.isascii() or not value.isprintable() or " " in value:
        raise ConfigError(
            f".{name} must be a URL that begins with https:// or http:// "
            "(what was given is not shown)"
        )


def retry_after(value: str | None, now: float) -> float | None:
    """Return the seconds that a service asks to wait, from a Retry-After number or date.

    >>> retry_after("30", 0), retry_after("Thu, 01 Jan 1970 00:01:00 GMT", 0)
    (30.0, 60.0)
    """
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - now
        except (ValueError, OverflowError, OSError):
            return None
    if math.isnan(seconds):
        return None
    return min(max(seconds, 0.0), _MAX_WAIT)


def _exchange(
    method: str, url: str, body: bytes, headers: Mapping[str, str], ends: float
) -> Answer:
    sent = {"User-Agent": f"klarm/{__version__}", "Connection": "close", **headers}
    call = urllib.request.Request(url, data=body, headers=sent, method=method)
    # Only these handlers: no redirects, no files, and error statuses raise no exception.
    opener = urllib.request.OpenerDirector()
    for handler in (urllib.request.ProxyHandler(), _Handler(ends)):
        opener.add_handler(handler)
    response = opener.open(call, timeout=seconds_until(ends))
    if response is None:
        raise ValueError("not an http or https URL")
    with response:
        return Answer(response.status, response.headers, response.read(_MAX_ANSWER))


class _Handler(urllib.request.AbstractHTTPHandler):
    """Opens connections that end before a deadline."""

    def __init__(self, ends: float) -> None:
        super().__init__()
        self._ends = ends

    http_request = https_request = urllib.request.AbstractHTTPHandler.do_request_

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(self._plain, req)  # type: ignore[arg-type]

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(self._secured, req)  # type: ignore[arg-type]

    def _plain(self, host: str, *, timeout: float) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection(host, timeout=timeout)
        connection._create_connection = connector(self._ends)  # type: ignore[attr-defined]
        return connection

    def _secured(self, host: str, *, timeout: float) -> http.client.HTTPConnection:
        connection = _Secured(host, timeout=timeout, context=tls_context())
        connection.ends = self._ends
        connection._create_connection = connector(self._ends)  # type: ignore[attr-defined]
        return connection


class _Secured(http.client.HTTPSConnection):
    ends = math.inf

    def connect(self) -> None:
        super().connect()
        end_by(self.sock, self.ends)


def why(error: Exception) -> str:
    """Describe an error in klarm's own words, because messages of urllib quote URLs."""
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(cause, NotResolvedError):
        return "its name was not resolved in time"
    if isinstance(cause, TimeoutError):
        return "no answer in time"
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {cause.verify_message}"
    if isinstance(cause, ssl.SSLError):
        return f"TLS failed: {cause.reason}"
    if isinstance(cause, socket.gaierror):
        return "its name cannot be resolved"
    if isinstance(cause, ConnectionRefusedError):
        return "it refused the connection"
    if isinstance(cause, http.client.InvalidURL | ValueError):
        return "the URL is invalid"
    if isinstance(cause, ConnectionError | http.client.HTTPException):
        return f"the connection broke ({type(cause).__name__})"
    if str(cause).startswith("Tunnel connection failed"):
        return "the proxy refused"
    return f"{type(cause).__name__} {getattr(cause, 'strerror', None) or ''}".strip()
