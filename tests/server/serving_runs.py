"""Runs for the tests, written by klarm itself, and a real server that shows them."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any, NamedTuple

import klarm
from klarm.cli.demo import read_recording
from klarm.journal import FileJournal, Started
from klarm.server import PageServer

RUNS = Path("runs")
_PLACE = tempfile.TemporaryDirectory()
_KEPT: dict[str, Path] = {}  # runs that were recorded


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """Asks a server on loopback."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.headers: dict[str, str] = {}

    def ask(self, path: str, method: str = "GET", body: object = None, **headers: str) -> Answer:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        sent = {**self.headers, **{name.replace("_", "-"): text for name, text in headers.items()}}
        data = None
        if body is not None:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            sent.setdefault("Content-Type", "application/json")
        with contextlib.closing(connection):
            connection.request(method, path, data, sent)
            answer = connection.getresponse()
            return Answer(
                answer.status,
                {name.title(): text for name, text in answer.getheaders()},
                answer.read(),
            )

    def get(self, path: str) -> Any:
        answer = self.ask(f"/api/v1{path}")
        assert answer.status == 200, answer.body
        return answer.json

    def post(self, path: str, body: object = None, method: str = "POST") -> Answer:
        return self.ask(f"/api/v1{path}", method, {} if body is None else body)

    @contextlib.contextmanager
    def events(self, query: str = "", **headers: str) -> Iterator[Iterator[tuple[str, Any]]]:
        """Give the events of the stream, as kind and data."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        sent = {**self.headers, **{name.replace("_", "-"): text for name, text in headers.items()}}
        with contextlib.closing(connection):
            connection.request("GET", f"/api/v1/events{query}", headers=sent)
            yield _parsed(connection.getresponse())


def _parsed(answer: HTTPResponse) -> Iterator[tuple[str, Any]]:
    kind = ""
    while line := answer.readline():
        name, _, text = line.decode().rstrip("\n").partition(": ")
        if name == "event":
            kind = text
        elif name == "data":
            yield kind, json.loads(text)


@contextlib.contextmanager
def served(root: Path = RUNS, **options: Any) -> Iterator[Client]:
    """Serve a folder on any free port, once everything in it is read."""
    root.mkdir(exist_ok=True)
    server = PageServer(root, options.pop("say", print), port=0, **options)
    server.start()
    try:
        client = Client(server.port)
        client.server = server  # type: ignore[attr-defined]
        if options.get("token"):
            client.headers["Authorization"] = f"Bearer {options['token']}"
        wait_until(lambda: not client.get("/runs")["indexing"])
        yield client
    finally:
        server.stop()


def wait_until(condition: Callable[[], Any], seconds: float = 60.0) -> Any:
    """Wait for what another thread does; return what the condition does."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)
    return found


def record(
    name: str, recording: str = "exploding", rows: int | None = None, **settings: Any
) -> Path:
    """Watch a recorded run as a training process would.

    The same run is recorded once; whoever asks for it again gets a copy.
    """
    variables = sorted(item for item in os.environ.items() if item[0].startswith("KLARM_"))
    kept = _KEPT.setdefault(
        repr((name, recording, rows, settings, variables)), Path(_PLACE.name) / str(len(_KEPT))
    )
    if not kept.exists():
        _record(name, recording, rows, settings)
        shutil.copytree(RUNS / name, kept)
    else:
        shutil.copytree(kept, RUNS / name)
    return RUNS / name


def _record(name: str, recording: str, rows: int | None, settings: dict[str, Any]) -> None:
    monitor = klarm.init(name, dir=str(RUNS), console=False, **settings)
    for row in read_recording(recording)[:rows]:
        monitor.log({key: value for key, value in row.items() if key != "step"}, step=row["step"])
        if row["step"] % 50 == 0:
            monitor.checkpoint(row["step"], f"/data/{row['step']}")
    klarm.finish()


def write_steps(
    name: str, rows: Mapping[int, Mapping[str, float]], *, finish: bool = False
) -> None:
    """Write a journal that holds these steps, a second each."""
    journal = FileJournal(RUNS / name, print)
    journal.record(Started(name, 1_763_200_000.0, "0.2.0", "node", {}))
    for step, metrics in rows.items():
        journal.step(step, 1_763_200_000.0 + step, metrics)
    journal.close(5.0)
