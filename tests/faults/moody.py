"""A service in every mood: takes messages, is busy or broken, refuses once, hangs, hangs up."""

from __future__ import annotations

import json
import random
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, NamedTuple

Mood = Literal["takes", "busy", "broken", "refuses", "hangs", "hangs up", "forgets to answer"]
# How often, of a hundred. What hangs or forgets has read the message: its reader may see it.
MOODS: dict[Mood, int] = {
    "takes": 40,
    "busy": 10,
    "broken": 15,
    "refuses": 10,
    "hangs": 5,
    "hangs up": 10,
    "forgets to answer": 10,
}
HANGS_SECONDS = 0.6  # longer than klarm waits


class Got(NamedTuple):
    """A message that reached the service, and what the service made of it."""

    path: str
    message: dict[str, Any]
    mood: Mood


class MoodyServer:
    """Answers on loopback as it pleases; the same seed gives the same moods in the same order."""

    def __init__(self, seed: int = 0) -> None:
        self.got: list[Got] = []
        self.is_well = False  # takes everything from now on
        self._chance = random.Random(seed)
        self._refused: set[tuple[str, str]] = set()
        self._lock = threading.Lock()
        self._over = threading.Event()
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                mood = service._mood(self.path, message)
                self.close_connection = True
                if mood == "hangs":
                    service._over.wait(HANGS_SECONDS)
                elif mood in ("takes", "busy", "broken", "refuses"):
                    status = {"takes": 200, "busy": 429, "broken": 500, "refuses": 404}[mood]
                    self.send_response(status)
                    self.send_header("Content-Length", "0")
                    if mood == "busy":
                        self.send_header("Retry-After", "0")
                    self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        class QuietServer(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 200

            def handle_error(self, *_: object) -> None:
                pass  # whoever asked is dead

        self._server = QuietServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def seen(self, path: str) -> list[dict[str, Any]]:
        """Return what a reader behind the service may have seen, in order."""
        seen = ("takes", "hangs", "forgets to answer")
        return [got.message for got in self.got if got.path == path and got.mood in seen]

    def taken(self, path: str) -> list[dict[str, Any]]:
        """Return what it took and said so."""
        return [got.message for got in self.got if got.path == path and got.mood == "takes"]

    def close(self) -> None:
        self._over.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _mood(self, path: str, message: dict[str, Any]) -> Mood:
        with self._lock:
            (mood,) = self._chance.choices(list(MOODS), list(MOODS.values()))
            once = (path, str(message.get("message_id")))
            if self.is_well or (mood == "refuses" and once in self._refused):
                mood = "takes"
            if mood == "refuses":
                self._refused.add(once)
            self.got.append(Got(path, message, mood))
            return mood
