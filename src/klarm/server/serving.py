"""Serves the index of a folder and the application on a port, until it is stopped."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FrameType

import uvicorn

from klarm.server.access import MIN_TOKEN, Access, is_loopback
from klarm.server.app import make_app
from klarm.server.index import Index
from klarm.server.page import Page
from klarm.store import runs_below

_START_SECONDS = 10.0
_STOP_SECONDS = 1


class CannotServeError(Exception):
    """The server cannot start. The message says why, and what to do."""


class PageServer:
    """Serves the runs below a folder."""

    def __init__(
        self,
        root: Path,
        say: Callable[[str], None],
        *,
        host: str = "127.0.0.1",
        port: int = 8421,
        token: str | None = None,
        allowed_hosts: Iterable[str] = (),
    ) -> None:
        """Bind to the port and open the index, or raise CannotServeError."""
        _check(root, host, token)
        self.host = host
        self._socket = _bound(host, port)
        self.port: int = self._socket.getsockname()[1]
        self.page = Page()
        self.index = Index(root.absolute(), say)
        app = make_app(self.index, Access(host, token, allowed_hosts), say, self.page)
        self._waiting = _WaitingConnections(say)
        logging.getLogger("asyncio").addFilter(self._waiting)
        self._server = _Server(
            self.index.changes.end,
            uvicorn.Config(
                app,
                log_level="error",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                lifespan="off",
                timeout_graceful_shutdown=_STOP_SECONDS,
            ),
        )
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """The URL for a browser on this machine."""
        host = "127.0.0.1" if self.host in ("0.0.0.0", "::", "") else self.host
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    @property
    def has_runs(self) -> bool:
        """Whether there is a run to show."""
        return next(runs_below(os.fsencode(self.index.root)), None) is not None

    def run(self) -> None:
        """Serve until the process receives a signal."""
        self.index.start()
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self._close()

    def start(self) -> None:
        """Serve on a thread until `stop`; return once the server accepts requests."""
        self.index.start()
        self._thread = threading.Thread(
            target=self._server.run, args=([self._socket],), name="klarm-page", daemon=True
        )
        self._thread.start()
        deadline = time.monotonic() + _START_SECONDS
        while not self._server.started and time.monotonic() < deadline:
            time.sleep(0.01)

    def stop(self) -> None:
        """Stop the server that `start` started."""
        self.index.changes.end()
        self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(timeout=_START_SECONDS)
        self._close()

    def _close(self) -> None:
        self.index.stop()
        logging.getLogger("asyncio").removeFilter(self._waiting)
        with contextlib.suppress(OSError):
            self._socket.close()


class _WaitingConnections(logging.Filter):
    """Says in one line that connections wait; asyncio would log a traceback for each attempt."""

    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__()
        self._say, self._has_said = say, False

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to log a record."""
        if not str(record.msg).startswith("socket.accept() out of system resource"):
            return True
        if not self._has_said:
            self._has_said = True
            self._say("too many files are open: new connections wait until others end")
        return False


class _Server(uvicorn.Server):
    """Ends event streams before it shuts down: they would never end on their own."""

    def __init__(self, end_streams: Callable[[], None], config: uvicorn.Config) -> None:
        super().__init__(config)
        self._end_streams = end_streams

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Handle Ctrl-C."""
        self._end_streams()
        super().handle_exit(sig, frame)


def _check(root: Path, host: str, token: str | None) -> None:
    if not root.is_dir():
        raise CannotServeError(f"{root} is not a folder; name the folder that holds the runs")
    try:
        socket.getaddrinfo(host, None)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise CannotServeError(
            f"{host} is not an address of this machine ({reason}); try another --host"
        ) from None
    if token is not None and len(token) < MIN_TOKEN:
        raise CannotServeError(f"a token must have at least {MIN_TOKEN} characters")
    if token is None and not is_loopback(host):
        raise CannotServeError(
            f"{host} can be reached by others, so it needs a token: set KLARM_SERVE_TOKEN, or use "
            "--token. This prints a good one: "
            "python3 -c 'import secrets; print(secrets.token_urlsafe(24))'"
        )


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except (OSError, OverflowError) as error:
        bound.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise CannotServeError(
            f"cannot listen on {host} port {port} ({reason}); try another --port"
        ) from None
    bound.set_inheritable(True)
    return bound
