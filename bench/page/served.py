"""A server in this process, and how long it takes to answer."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path
from statistics import median
from typing import Any

from klarm.server import PageServer


class Served:
    """A server on loopback."""

    def __init__(self, root: Path) -> None:
        self._server = PageServer(root, print, port=0)
        self.port = self._server.port

    def __enter__(self) -> Served:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop()

    def get(self, path: str) -> Any:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=600)
        connection.request("GET", f"/api/v1{path}")
        answer = connection.getresponse()
        if answer.status != 200:
            raise AssertionError(answer.read())
        found = json.loads(answer.read())
        connection.close()
        return found

    def wait_until_read(self) -> None:
        """Wait until every journal is in the index."""
        while True:
            overview = self.get("/runs?sparklines=false")
            if overview["runs"] and overview["indexing"] is None:
                return
            time.sleep(0.1)


def seconds(work: Callable[[], object], turns: int = 5) -> float:
    """Return how long something takes: the median of some turns."""
    times = []
    for _ in range(turns):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return median(times)
