"""A server in this process or in its own, and how long it takes to answer."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path
from socket import socket
from statistics import median
from typing import Any

from klarm.server import PageServer


class Served:
    """A server on loopback."""

    def __init__(self, root: Path) -> None:
        self._server = PageServer(root, print, port=0)
        self.port = self._server.port

    def __enter__(self) -> Any:
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

    def wait_until_first(self) -> None:
        """Wait until a run is shown."""
        while not self.get("/runs?sparklines=false")["runs"]:
            time.sleep(0.02)

    def wait_until_read(self) -> None:
        """Wait until every journal is read."""
        while True:
            overview = self.get("/runs?sparklines=false")
            if overview["runs"] and overview["indexing"] is None:
                return
            time.sleep(0.02)


class ServedAlone(Served):
    """A server in a process of its own, so that its memory and its time can be told."""

    def __init__(self, root: Path, cache: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "klarm", "serve", str(root), "--port", "0"],
            stdout=subprocess.PIPE,
            env={**os.environ, "XDG_CACHE_HOME": str(cache), "PYTHONUNBUFFERED": "1"},
            text=True,
        )
        assert self._process.stdout is not None
        self.port = int(re.findall(r":(\d+) ", self._process.stdout.readline())[0])
        while True:  # it binds to the port before it listens
            with contextlib.suppress(ConnectionRefusedError), socket() as asked:
                asked.connect(("127.0.0.1", self.port))
                return
            time.sleep(0.01)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.communicate()

    def memory(self) -> float:
        """Return the memory of the process, in MB."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) / 1e3

    def processor_seconds(self) -> float:
        """Return how much processor time the process has used."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def seconds(work: Callable[[], object], turns: int = 5) -> float:
    """Return how long something takes: the median of some turns."""
    times = []
    for _ in range(turns):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return median(times)
