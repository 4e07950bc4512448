"""A service that notes which addresses are called."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Pulse:
    """Answers every GET on loopback with one status."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.status = 200
        pulse = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                pulse.paths.append(self.path)
                self.send_response(pulse.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
