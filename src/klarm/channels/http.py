"""One HTTP request of a channel: bounded in time and size, verified, never redirected.

By the standard library: klarm brings no HTTP client into other people's environments.
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

_LARGEST_ANSWER = 64 * 1024
_LARGEST_READ, _LARGEST_TOLD = 4_096, 200
# That the service is busy or broken, and may not be later.
_WORTH_A_RETRY = {408, 425, 429}
# That nobody is let in, or that there is nothing at the address.
_NOT_LET_IN = {401, 403, 404, 410}
_MAX_WAIT = 24 * 3600.0


class Answer(NamedTuple):
    """What a service answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes  # its beginning, if it is very long

    def json(self, channel: Channel) -> dict[str, Any]:
        """Return the object in it; not to find one means that somebody else answered."""
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
    """Return the answer of a service that took the request; raise NotDelivered otherwise.

    Statuses in `accept` are answers too. Whatever is raised holds no secret of the channel.
    """
    ends = time.monotonic() + channel.timeout_seconds
    where = shown(url)
    answer, failed = None, ""
    try:
        answer = _exchange(method, url, body, headers, ends)
    except (OSError, http.client.HTTPException, ValueError) as error:
        failed = why(error)
    if answer is None:  # raised here, so that nothing of urllib's hangs on to it, nor a socket
        raise channel.not_delivered(f"{where}: {failed}", retry=True)
    if 200 <= answer.status < 300 or answer.status in accept:
        return answer
    if 300 <= answer.status < 400:
        reason = f"{where} answered {answer.status}, a redirect, which is not followed"
        raise channel.not_delivered(reason, retry=False)
    beginning = answer.body[:_LARGEST_READ].decode("utf-8", "replace")
    said = channel.hide_secrets(beginning)[:_LARGEST_TOLD]
    told = f"{answer.status}"
    if answer.status in _NOT_LET_IN and channel.to_check:  # first: what follows may be cut
        told += f" (check {channel.to_check})"
    raise channel.not_delivered(
        f"{where} answered {told}: {said or http.client.responses.get(answer.status)}",
        retry=answer.status in _WORTH_A_RETRY or answer.status >= 500,
        after_seconds=retry_after(answer.headers.get("Retry-After"), time.time()),
    )


def post_json(
    channel: Channel, url: str, content: object, headers: Mapping[str, str] | None = None
) -> Answer:
    """Post an object as JSON."""
    kind = {"Content-Type": "application/json; charset=utf-8"}
    return request(channel, "POST", url, msgspec.json.encode(content), {**kind, **(headers or {})})


def check_url(value: str, name: str, *, login_goes: str = "") -> None:
    """Raise ConfigError, without the value, unless it is an address that can be called.

    A login in it would be taken for a part of the host. `login_goes` says where one belongs.
    """
    try:
        parts = urlsplit(value)
        login = "@" in parts.netloc
        good = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        good = login = False
    if login:
        raise ConfigError(
            f".{name} holds a login (name:password@host), which is not supported"
            f"{login_goes} (what was given is not shown)"
        )
    if not good or not value.isascii() or not value.isprintable() or " " in value:
        raise ConfigError(
            f".{name} must be an address that begins with https:// or http:// "
            "(what was given is not shown)"
        )


def retry_after(value: str | None, now: float) -> float | None:
    """Return the seconds a service asks to wait, given as such or as a date.

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
    # Nothing else: no redirects, no files, and a status is no exception.
    opener = urllib.request.OpenerDirector()
    for handler in (urllib.request.ProxyHandler(), _Handler(ends)):
        opener.add_handler(handler)
    response = opener.open(call, timeout=seconds_until(ends))
    if response is None:
        raise ValueError("not an http or https address")
    with response:
        return Answer(response.status, response.headers, response.read(_LARGEST_ANSWER))


class _Handler(urllib.request.AbstractHTTPHandler):
    """Opens connections that end in time."""

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
    """Say what went wrong in words of ours: texts of urllib quote addresses."""
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
        return "the address cannot be called"
    if isinstance(cause, ConnectionError | http.client.HTTPException):
        return f"the connection broke ({type(cause).__name__})"
    if str(cause).startswith("Tunnel connection failed"):
        return "the proxy refused"
    return f"{type(cause).__name__} {getattr(cause, 'strerror', None) or ''}".strip()
