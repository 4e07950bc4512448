"""A real HTTP server on loopback that plays a service, and a message to send."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from email.message import Message as Headers
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import trustme

from pulse import Pulse

Handler = BaseHTTPRequestHandler


@dataclass
class Call:
    """One request as it came."""

    method: str
    path: str
    headers: Headers
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Service:
    """Answers with what is in `answers`, in turn, the last for ever; remembers what it was sent."""

    answers: list[Callable[[Handler], object]] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    url: str = ""
    # Set when the test is over: what hangs or drips ends then.
    over: threading.Event = field(default_factory=threading.Event)

    def answer(self, handler: Handler) -> None:
        length = int(handler.headers.get("Content-Length") or 0)
        body = handler.rfile.read(length)
        self.calls.append(Call(handler.command, handler.path, handler.headers, body))
        answers = self.answers
        (answers.pop(0) if len(answers) > 1 else answers[0])(handler)

    def always(self, status: int, body: object = b"ok", **headers: str) -> None:
        self.answers[:] = [reply(status, body, **headers)]


def reply(status: int, body: object = b"ok", **headers: str) -> Callable[[Handler], None]:
    """Return an answer; what is no bytes is sent as JSON."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()

    def send(handler: Handler) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)

    return send


def serve(service: Service, context: ssl.SSLContext | None = None) -> ThreadingHTTPServer:
    class Play(Handler):
        def do_POST(self) -> None:  # noqa: N802
            try:
                service.answer(self)
            except OSError:  # the client had enough
                self.close_connection = True

        do_PATCH = do_GET = do_POST  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            pass  # a client that refuses the certificate

    server = Server(("127.0.0.1", 0), Play)
    scheme = "http"
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        scheme = "https"
    service.url = f"{scheme}://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    return server


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loopback is not reached through a proxy of this machine."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def service() -> Iterator[Service]:
    """A service that answers 200 ok until a test sets another answer."""
    played = Service([reply(200)])
    server = serve(played)
    yield played
    played.over.set()
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def tls_service(authority: trustme.CA) -> Iterator[Service]:
    """The same with a certificate of an authority that nobody trusts yet."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    played = Service([reply(200)])
    server = serve(played, context)
    yield played
    played.over.set()
    server.shutdown()
    server.server_close()


@pytest.fixture
def ca_file(authority: trustme.CA, tmp_path: Path) -> Path:
    path = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(path)
    return path


@pytest.fixture
def answered() -> Callable[..., Callable[[Handler], None]]:
    return reply


@pytest.fixture
def pulse() -> Iterator[Pulse]:
    pulse = Pulse()
    yield pulse
    pulse.close()
