"""What delivery costs training when incidents come in a burst: with and without a channel."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from socket import create_server
from statistics import median
from time import perf_counter_ns

import msgspec

import klarm
from klarm.channels.base import Channel, NotDelivered, Receipt
from klarm.channels.message import Message
from klarm.delivery.routes import Run
from klarm.delivery.threads import Delivery
from klarm.delivery.writer import MessageWriter
from klarm.detectors import CATALOGUE
from table import Row

INCIDENTS, STEPS_AN_INCIDENT = 1_000, 10
# A server of its own process: it must not take turns with what is measured.
ANSWERING = """
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.end_headers()
    def log_message(self, *_):
        pass
server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"""


@dataclass(kw_only=True, repr=False)
class HttpChannel(Channel):
    type = "http"

    port: int

    def send(self, message: Message, earlier: Mapping[str, str]) -> Receipt:  # noqa: ARG002
        url = f"http://127.0.0.1:{self.port}"
        try:
            urllib.request.urlopen(url, msgspec.json.encode(message), self.timeout_seconds).close()
        except OSError as error:
            raise NotDelivered(type(error).__name__, retry=True) from None
        return {}


@dataclass
class Everything:
    channel: HttpChannel

    def takes(self, message: Message) -> bool:  # noqa: ARG002
        return True


def burst_rows() -> Iterator[Row]:
    """Measure every `log` of runs with a thousand incidents, the three taking turns."""
    with hanging() as silent, answering() as willing:
        contenders: dict[str, Callable[[], tuple[float, float]]] = {
            "no channel": lambda: burst(None),
            "hangs": lambda: burst(silent),
            "answers": lambda: burst(willing),
        }
        measured: dict[str, list[tuple[float, float]]] = {name: [] for name in contenders}
        for _ in range(7):
            for name, measure in contenders.items():
                measured[name].append(measure())
    p99 = {name: median(times for times, _ in turns) for name, turns in measured.items()}
    memory = {name: median(grown for _, grown in turns) for name, turns in measured.items()}
    yield Row("log p99, 1,000 incidents, no channel", "µs", p99["no channel"])
    for name in ("hangs", "answers"):
        ratio = p99[name] / p99["no channel"]
        what = f"  a channel that {name}"
        yield Row(what, "µs", p99[name], None, ratio, "≤ 1.2×", ratio <= 1.2)
    grown = memory["hangs"] - memory["no channel"]
    yield Row("  memory of what it owes", "MiB", grown, target="< 1 MiB", met=grown < 1)


def burst(port: int | None) -> tuple[float, float]:
    """Return the 99th percentile of `log` in microseconds, and how many MiB the run left."""
    settings: dict[str, dict[str, object]] = {k.name: {"enabled": False} for k in CATALOGUE}
    settings["kl_explosion"] = {"resolve_after": 1, "sigma_multiplier": 50.0}
    with tempfile.TemporaryDirectory(
        dir=Path.cwd(), ignore_cleanup_errors=True
    ) as folder:  # a thread may still write
        monitor = klarm.init("burst", console=False, dir=folder, **settings)
        if port is not None:
            route = Everything(HttpChannel(name="http", port=port))
            context = Run("burst", Path(folder) / "burst")
            monitor.on_event.append(Delivery([route], MessageWriter(), context, lambda _: None))
        monitor.log({"kl": 0.1}, 0)
        before = resident_mib()
        times = []
        for step in range(1, INCIDENTS * STEPS_AN_INCIDENT + 1):
            value = float("nan") if step % STEPS_AN_INCIDENT == 0 else 0.1
            start = perf_counter_ns()
            monitor.log({"kl": value}, step)
            times.append(perf_counter_ns() - start)
        grown = resident_mib() - before
        monitor.finish(0.0)
        for delivery in monitor.on_event:
            delivery.finish(0.0)
    if len(monitor.incidents) < INCIDENTS:
        raise RuntimeError(f"{len(monitor.incidents)} of {INCIDENTS} incidents")
    return sorted(times)[int(0.99 * len(times))] / 1e3, grown


@contextmanager
def hanging() -> Iterator[int]:
    """Give the port of a server that takes connections and never answers."""
    with create_server(("127.0.0.1", 0), backlog=64) as server:
        yield server.getsockname()[1]


@contextmanager
def answering() -> Iterator[int]:
    """Give the port of a server that takes everything."""
    command = [sys.executable, "-c", ANSWERING]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            yield int(server.stdout.readline())
        finally:
            server.kill()


def resident_mib() -> float:
    """Return how much memory this process holds, garbage aside."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


if __name__ == "__main__":
    from table import show

    show(list(burst_rows()), {})
