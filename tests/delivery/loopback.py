"""A channel to a server on loopback, for this process and for those that tests start.

`python -m loopback ARGUMENTS` is the klarm command with such channels; other scripts import this
module before they call `klarm.init`. LOOPBACK names the channels: `name=url,name=url`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec

from klarm.channels.base import Channel, NotDelivered, Receipt
from klarm.channels.message import Message
from klarm.delivery import outgoing
from klarm.types import Severity


@dataclass(kw_only=True, repr=False)
class LoopbackChannel(Channel):
    type = "loopback"

    url: str

    def send(self, message: Message, earlier: Mapping[str, str]) -> Receipt:
        said = {**msgspec.to_builtins(message), "earlier": dict(earlier), "pid": os.getpid()}
        request = urllib.request.Request(self.url, json.dumps(said).encode())
        try:
            with urllib.request.urlopen(request, timeout=self.timeout_seconds) as answer:
                return json.load(answer)  # type: ignore[no-any-return]
        except urllib.error.HTTPError as error:
            with error:
                after = error.headers.get("Retry-After")
            raise NotDelivered(
                f"HTTP {error.code}",
                retry=error.code == 429 or error.code >= 500,
                after_seconds=float(after) if after else None,
            ) from None
        except OSError as error:
            raise NotDelivered(f"no answer ({type(error).__name__})", retry=True) from None


@dataclass
class LoopbackRoute:
    channel: LoopbackChannel
    severities: Sequence[str] = ("warning", "critical")
    repeat_after: float = 0.0
    repeat_severity: Severity = "critical"

    def takes(self, message: Message) -> bool:
        return message.severity in self.severities


def routes_from_environment(_: object) -> list[LoopbackRoute]:
    places = [place.partition("=") for place in os.environ.get("LOOPBACK", "").split(",") if place]
    return [LoopbackRoute(LoopbackChannel(name=name, url=url)) for name, _, url in places]


if "LOOPBACK" in os.environ:  # in the processes that tests start, not in that of the tests
    outgoing.routes_of = routes_from_environment


class Server:
    """Takes messages on loopback. Answers 200 unless a test sets what to answer next; may hang."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []  # in full
        self.answers: list[tuple[int, dict[str, str]]] = []  # the next ones
        self.let_go = threading.Event()
        self.hangs = False
        self.broken: set[int] = set()  # incidents it cannot digest
        self.refusing = ""  # a path at which it knows nothing
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                message["path"] = self.path
                message["authorization"] = self.headers.get("Authorization", "")
                server.messages.append(message)
                if server.hangs or self.path == "/hangs":
                    server.let_go.wait()
                code, headers = server.answers.pop(0) if server.answers else (200, {})
                code = 500 if message.get("incident") in server.broken else code
                code = 404 if self.path == server.refusing else code
                body = json.dumps({"thread": f"t{len(server.messages)}"}).encode()
                try:
                    self.send_response(code)
                    for name, value in {**headers, "Content-Length": str(len(body))}.items():
                        self.send_header(name, value)
                    self.end_headers()
                    self.wfile.write(body)
                except OSError:  # whoever asked is dead
                    self.close_connection = True

            def log_message(self, *_: object) -> None:
                pass

        class QuietServer(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 200

            def handle_error(self, *_: object) -> None:
                pass  # killed in the middle of a request

        self._server = QuietServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def received(self, path: str | None = None) -> list[tuple[int, str, int]]:
        """Return what was said: incident, event and step of every message."""
        return [
            (message["incident"], message["event"], message["step"])
            for message in self.messages
            if path is None or message["path"] == path
        ]

    def close(self) -> None:
        self.let_go.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def environment(channels: str) -> dict[str, str]:
    """Return the environment of a process with channels."""
    here = os.path.dirname(__file__)  # noqa: PTH120
    path = os.pathsep.join([here, *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
    return {**os.environ, "PYTHONPATH": path.rstrip(os.pathsep), "LOOPBACK": channels}


def run_python(code: str, channels: str) -> subprocess.CompletedProcess[str]:
    """Run a script with channels."""
    return subprocess.run(
        [sys.executable, "-c", "import loopback\n" + textwrap.dedent(code)],
        env=environment(channels),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def run_klarm(*arguments: str, channels: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command with channels."""
    return subprocess.run(
        [sys.executable, "-m", "loopback", *arguments],
        env=environment(channels),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


if __name__ == "__main__":
    from klarm.cli import main

    main()
