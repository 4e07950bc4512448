"""Sockets with a last moment: whoever is on the other end, a conversation is over by then.

A timeout of a socket counts anew with every byte. A server that sends one a second would hold the
delivery thread for good.
"""

from __future__ import annotations

import contextlib
import math
import socket
import ssl
import time
from collections.abc import Callable
from typing import Any


class _LastMoment:
    """Makes every operation of a socket wait for what is left of the time, and no longer."""

    ends = math.inf  # by time.monotonic

    def _allow_what_is_left(self) -> None:
        if self.ends < math.inf:
            self.settimeout(seconds_until(self.ends))  # type: ignore[attr-defined]

    def recv_into(self, *args: Any, **kwargs: Any) -> int:
        self._allow_what_is_left()
        received: int = super().recv_into(*args, **kwargs)  # type: ignore[misc]
        return received

    def send(self, *args: Any, **kwargs: Any) -> int:  # also what a TLS sendall is made of
        self._allow_what_is_left()
        sent: int = super().send(*args, **kwargs)  # type: ignore[misc]
        return sent


class _PlainSocket(_LastMoment, socket.socket):
    pass


class _TLSSocket(_LastMoment, ssl.SSLSocket):
    pass


def seconds_until(moment: float) -> float:
    """Return the time left, or raise TimeoutError when there is none."""
    left = moment - time.monotonic()
    if left <= 0.0:
        raise TimeoutError("the time was up")
    return left


def connector(ends: float) -> Callable[..., socket.socket]:
    """Return what connects to a host and port as `socket.create_connection` does, until then."""

    def connect(address: tuple[str, int], *_: object) -> socket.socket:
        host, port = address
        failure: OSError | None = None
        found_all = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        for tried, (family, kind, protocol, _name, found) in enumerate(found_all):
            sock = _PlainSocket(family, kind, protocol)
            try:
                # A share for each: the first may be one that never answers.
                sock.settimeout(seconds_until(ends) / (len(found_all) - tried))
                sock.connect(found)
                sock.ends = ends
                return sock
            except OSError as error:
                sock.close()
                failure = error
        raise failure or OSError("the host has no address")

    return connect


def end_by(sock: Any, ends: float) -> None:
    """Give a socket that was wrapped for TLS its last moment too."""
    with contextlib.suppress(AttributeError):
        sock.ends = ends


def tls_context(ca_file: str = "") -> ssl.SSLContext:
    """Return what verifies certificates and names: by the system's authorities, or by a file's."""
    context = ssl.create_default_context(cafile=ca_file or None)
    context.sslsocket_class = _TLSSocket
    return context
