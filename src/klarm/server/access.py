"""Access control: the token, sessions after a login, and which hosts and origins are ours."""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterable
from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlsplit

COOKIE = "klarm_session"
SESSION_SECONDS = 7 * 24 * 3600
MIN_TOKEN = 16
_MAX_SESSIONS = 1000
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


def is_loopback(host: str) -> bool:
    """Return whether a server bound to a host can be reached only from this machine.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Access:
    """Decides which requests are allowed."""

    def __init__(
        self,
        host: str,
        token: str | None,
        allowed_hosts: Iterable[str] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Take the host that the server is bound to, its token, and further names of the server."""
        self._token = token.encode() if token else None
        self._clock = clock
        self._sessions: dict[str, float] = {}  # the time at which each session ends
        self._lock = threading.Lock()
        self._names = {name.lower() for name in (*_LOOPBACK_NAMES, host, *allowed_hosts)}
        self._any_address = not is_loopback(host)
        if self._any_address:
            self._names |= {socket.gethostname().lower(), socket.getfqdn().lower()}

    @property
    def login_needed(self) -> bool:
        """Whether the server requires a token."""
        return self._token is not None

    def knows_token(self, token: str) -> bool:
        """Return whether a token is right, comparing in constant time."""
        return self._token is not None and hmac.compare_digest(token.encode(), self._token)

    def is_allowed(self, authorization: str, cookies: str) -> bool:
        """Return whether a request has the token or a session."""
        if self._token is None:
            return True
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() == "bearer" and self.knows_token(token.strip()):
            return True
        session = session_in(cookies)
        with self._lock:
            return self._sessions.get(session, 0.0) > self._clock()

    def open_session(self) -> str:
        """Return a new session for a user who has given the token."""
        now = self._clock()
        with self._lock:
            self._sessions = {key: end for key, end in self._sessions.items() if end > now}
            while len(self._sessions) >= _MAX_SESSIONS:
                self._sessions.pop(next(iter(self._sessions)))
            session = secrets.token_urlsafe(32)
            self._sessions[session] = now + SESSION_SECONDS
        return session

    def close_session(self, cookies: str) -> None:
        """End the session of a request."""
        with self._lock:
            self._sessions.pop(session_in(cookies), None)

    def is_our_host(self, host: str) -> bool:
        """Return whether a Host header names this server, to prevent DNS rebinding.

        If a token is required, any IP address is accepted, because a rebound page does not have a
        session cookie.
        """
        name = _name_in(host)
        if name in self._names:
            return True
        if not self._any_address:
            return False
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True

    @staticmethod
    def is_our_origin(origin: str, host: str, site: str) -> bool:
        """Return whether a request comes from our own page or from no page at all (CSRF check)."""
        if site not in ("", "same-origin", "none"):
            return False
        if not origin:
            return True
        try:
            return urlsplit(origin).netloc.lower() == host.lower()
        except ValueError:
            return False


def session_in(cookies: str) -> str:
    """Return the session in a Cookie header, or an empty string."""
    try:
        found = SimpleCookie(cookies).get(COOKIE)
    except CookieError:
        return ""
    return found.value if found is not None else ""


def _name_in(host: str) -> str:
    """Return the name in a Host header, without its port."""
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return ""
