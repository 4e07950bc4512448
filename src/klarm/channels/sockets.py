"""Sockets with a last moment: whoever is on the other end, a conversation is over by then.

A timeout of a socket counts anew with every byte. A server that sends one a second would hold the
delivery thread for good.
"""

from __future__ import annotations

import contextlib
import encodings.idna  # noqa: F401  # or looking up a host imports it, amid the training
import math
import socket
import ssl
import threading
import time
from collections.abc import Callable
from typing import Any

from klarm.descriptors import above_standard


class NotResolvedError(TimeoutError):
    """The resolver took longer than there was time."""


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
        found_all = _resolved(host, port, ends)
        for tried, (family, kind, protocol, _name, found) in enumerate(found_all):
            sock = _PlainSocket(family, kind, protocol)
            if sock.fileno() <= 2:  # stderr is closed, and must not be replaced by this
                sock = _PlainSocket(family, kind, protocol, above_standard(sock.detach()))
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


class _Lookup(threading.Thread):
    """One question to the system's resolver, which cannot be told how long it may take."""

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


# What is under way, by host and port: nobody asks again meanwhile.
_lookups: dict[tuple[str, int], _Lookup] = {}


def _resolved(host: str, port: int, ends: float) -> list[Any]:
    lookup = _lookups.get((host, port))
    # Without a lock, which a fork might find held: two at the same moment both ask, no harm done.
    if lookup is None or not lookup.is_alive():
        lookup = _lookups[host, port] = _Lookup(host, port)
        try:
            lookup.start()
        except RuntimeError:  # no thread to be had: at the end of a script, on some Pythons
            lookup.run()
            _lookups.pop((host, port), None)
            return lookup.result()
    lookup.join(seconds_until(ends))
    if lookup.is_alive():
        raise NotResolvedError("the name was not resolved in time")
    _lookups.pop((host, port), None)
    return lookup.result()


def end_by(sock: Any, ends: float) -> None:
    """Give a socket that was wrapped for TLS its last moment too."""
    with contextlib.suppress(AttributeError):
        sock.ends = ends


def tls_context(ca_file: str = "") -> ssl.SSLContext:
    """Return what verifies certificates and names: by the system's authorities, or by a file's."""
    context = ssl.create_default_context(cafile=ca_file or None)
    context.sslsocket_class = _TLSSocket
    return context
