"""Sockets with a deadline for the whole conversation.

The timeout of a socket starts again with every byte. A server that sends one byte per second would
otherwise block the delivery thread forever.
"""

from __future__ import annotations

import contextlib
import encodings.idna  # noqa: F401  # else the first lookup of a host imports it during training
import math
import socket
import ssl
import threading
import time
from collections.abc import Callable
from typing import Any

from klarm.descriptors import above_standard


class NotResolvedError(TimeoutError):
    """The resolver did not answer before the deadline."""


class _WithDeadline:
    """Limits every operation of a socket to the time left until the deadline."""

    ends = math.inf  # the deadline, by time.monotonic

    def _set_time_left(self) -> None:
        if self.ends < math.inf:
            self.settimeout(seconds_until(self.ends))  # type: ignore[attr-defined]

    def recv_into(self, *args: Any, **kwargs: Any) -> int:
        self._set_time_left()
        received: int = super().recv_into(*args, **kwargs)  # type: ignore[misc]
        return received

    def send(self, *args: Any, **kwargs: Any) -> int:  # `sendall` of a TLS socket calls it, too
        self._set_time_left()
        sent: int = super().send(*args, **kwargs)  # type: ignore[misc]
        return sent


class _PlainSocket(_WithDeadline, socket.socket):
    pass


class _TLSSocket(_WithDeadline, ssl.SSLSocket):
    pass


def seconds_until(moment: float) -> float:
    """Return the seconds left, or raise TimeoutError if there are none."""
    left = moment - time.monotonic()
    if left <= 0.0:
        raise TimeoutError("the time was up")
    return left


def connector(ends: float) -> Callable[..., socket.socket]:
    """Return a function like `socket.create_connection`, but with a deadline."""

    def connect(address: tuple[str, int], *_: object) -> socket.socket:
        host, port = address
        failure: OSError | None = None
        found_all = _resolved(host, port, ends)
        for tried, (family, kind, protocol, _name, found) in enumerate(found_all):
            sock = _PlainSocket(family, kind, protocol)
            if sock.fileno() <= 2:  # stderr is closed, and must not be replaced by this
                sock = _PlainSocket(family, kind, protocol, above_standard(sock.detach()))
            try:
                # Each address gets a share of the time: the first may never answer.
                sock.settimeout(seconds_until(ends) / (len(found_all) - tried))
                sock.connect(found)
                sock.ends = ends
                return sock
            except OSError as error:
                sock.close()
                failure = error
        raise failure or OSError("the host has no address")

    return connect


class _Lookup(threading.Thread):
    """A lookup by the system's resolver on a thread, because it has no timeout."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__(name=f"klarm-resolve-{host}", daemon=True)
        self._host, self._port = host, port
        self.found: list[Any] = []
        self.failure: Exception | None = None

    def run(self) -> None:
        try:
            self.found = socket.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        except (OSError, ValueError) as error:
            self.failure = error

    def result(self) -> list[Any]:
        if self.failure is not None:
            raise self.failure
        return self.found


# The lookups in progress, by host and port, so that each is made only once at a time.
_lookups: dict[tuple[str, int], _Lookup] = {}


def _resolved(host: str, port: int, ends: float) -> list[Any]:
    lookup = _lookups.get((host, port))
    # No lock is used, because a fork might copy it while it is held. If two threads look up the
    # same host at the same moment, that does no harm.
    if lookup is None or not lookup.is_alive():
        lookup = _lookups[host, port] = _Lookup(host, port)
        try:
            lookup.start()
        except RuntimeError:  # no thread can be started, as at the end of a script
            lookup.run()
            _lookups.pop((host, port), None)
            return lookup.result()
    lookup.join(seconds_until(ends))
    if lookup.is_alive():
        raise NotResolvedError("the name was not resolved in time")
    _lookups.pop((host, port), None)
    return lookup.result()


def end_by(sock: Any, ends: float) -> None:
    """Set the deadline of a socket that was wrapped for TLS."""
    with contextlib.suppress(AttributeError):
        sock.ends = ends


def tls_context(ca_file: str = "") -> ssl.SSLContext:
    """Return a context that verifies certificates and host names, by the system's CAs or a file."""
    context = ssl.create_default_context(cafile=ca_file or None)
    context.sslsocket_class = _TLSSocket
    return context
