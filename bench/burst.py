"""Measures what delivery costs training during a burst of incidents, with and without a channel.

The noise of the machine is larger than the effect. Therefore a burst with a channel is compared to
the bursts without one right before and after it, in one process. Every kind of channel is measured
in many processes, which alternate. The control has no channel at all: its ratio and interval show
which differences are noise.
"""

from __future__ import annotations

import gc
import json
import math
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from socket import create_server
from statistics import median
from time import perf_counter_ns

import klarm
from klarm.detectors import CATALOGUE
from table import Row

INCIDENTS, STEPS_AN_INCIDENT = 1_000, 10
ROUNDS, MEMORY_ROUNDS = 18, 3
# The limit is what the control reaches by chance (the end of its interval): at least 5 %, which
# nobody notices, and at most 10 %, so that a busy machine is no excuse.
MIN_LIMIT, MAX_LIMIT = 1.05, 1.1
# The server runs in another process, because it must not share the GIL with what is measured.
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
NO_CHANNEL = 0  # in place of a port


def burst_rows() -> Iterator[Row]:
    """Measure every `log` of runs with a thousand incidents."""
    with hanging() as silent, answering() as willing:
        ports = {"no channel": NO_CHANNEL, "hangs": silent, "answers": willing}
        turns = {name: [] for name in ports}
        for _ in range(ROUNDS):
            for name, port in ports.items():
                turns[name].append(in_a_process("sandwich", port))
        peaks = {
            name: median(in_a_process("alone", port)["peak"] for _ in range(MEMORY_ROUNDS))
            for name, port in ports.items()
        }
    if not all(between["sent"] for _, between, _ in turns["answers"]):
        raise RuntimeError("a channel that answers got no message")
    yield from p99_rows(turns)
    for name in ("hangs", "answers"):
        more = peaks[name] - peaks["no channel"]
        what = f"  memory, a channel that {name}"
        yield Row(what, "MiB", more, target="< 1 MiB", met=more < 1)


def p99_rows(turns: dict[str, list[list[dict[str, float]]]]) -> Iterator[Row]:
    """Compare the bursts in the middle to those around them."""
    alone = median(burst["p99"] for around in turns["no channel"] for burst in around)
    yield Row("log p99, 1,000 incidents, no channel", "µs", alone)
    chance, interval = median_ratio(turns["no channel"], "p99")
    limit = min(max(MIN_LIMIT, interval[1]), MAX_LIMIT)
    what = f"  again: its end is the limit, {MIN_LIMIT} to {MAX_LIMIT}"
    yield Row(what, "µs", alone * chance, None, chance, interval=interval)
    for name in ("hangs", "answers"):
        ratio, interval = median_ratio(turns[name], "p99")
        what, target = f"  a channel that {name}", f"≤ {limit:.2f}×"
        yield Row(what, "µs", alone * ratio, None, ratio, target, ratio <= limit, interval)
    for name, turns_of_it in turns.items():
        ratio, interval = median_ratio(turns_of_it, "p99.9")
        of = median(burst["p99.9"] for _, burst, _ in turns_of_it)
        yield Row(f"  p99.9, {name}", "µs", of, None, ratio, interval=interval)


def median_ratio(
    turns: Sequence[Sequence[dict[str, float]]], which: str
) -> tuple[float, tuple[float, float]]:
    """Return the middle burst against those around it, and the interval of 95 % (bootstrap)."""
    ratios = [
        between[which] / math.sqrt(before[which] * after[which]) for before, between, after in turns
    ]
    draw = random.Random(0).choices
    medians = sorted(median(draw(ratios, k=len(ratios))) for _ in range(2_000))
    return median(ratios), (medians[50], medians[-51])


def in_a_process(what: str, port: int) -> object:
    """Return the measurements of a new process."""
    command = [sys.executable, __file__, what, str(port)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)


def sandwich(port: int) -> list[dict[str, float]]:
    """Measure a burst with a channel between two without."""
    return [burst(NO_CHANNEL), burst(port), burst(NO_CHANNEL)]


def burst(port: int) -> dict[str, float]:
    """Return percentiles of `log` in microseconds, MiB at the peak, and messages sent."""
    settings: dict[str, dict[str, object]] = {k.name: {"enabled": False} for k in CATALOGUE}
    settings["kl_explosion"] = {"resolve_after": 1, "sigma_multiplier": 50.0}
    if port != NO_CHANNEL:
        address = f"http://127.0.0.1:{port}/"
        settings["channels"] = {"hook": {"type": "webhook", "url": address}}
    with tempfile.TemporaryDirectory(
        dir=Path.cwd(), ignore_cleanup_errors=True
    ) as folder:  # a thread may still write
        # Each is a new incident: none reopens the previous one.
        rules = {"reopen_within": 0}
        monitor = klarm.init("burst", console=False, dir=folder, incidents=rules, **settings)
        monitor.log({"kl": 0.1}, 0)
        before = resident_mib()
        times = []
        for step in range(1, INCIDENTS * STEPS_AN_INCIDENT + 1):
            value = float("nan") if step % STEPS_AN_INCIDENT == 0 else 0.1
            start = perf_counter_ns()
            monitor.log({"kl": value}, step)
            times.append(perf_counter_ns() - start)
        peak = peak_mib() - before
        deliveries = Path(folder) / "burst" / "deliveries.jsonl"
        sent = len(deliveries.read_bytes().splitlines()) if deliveries.exists() else 0
        monitor.finish(0.0)
    if len(monitor.incidents) < INCIDENTS:
        raise RuntimeError(f"{len(monitor.incidents)} of {INCIDENTS} incidents")
    p99, p999 = (sorted(times)[int(share * len(times))] / 1e3 for share in (0.99, 0.999))
    return {"p99": p99, "p99.9": p999, "peak": peak, "sent": sent}


@contextmanager
def hanging() -> Iterator[int]:
    """Yield the port of a server that accepts connections and never answers."""
    with create_server(("127.0.0.1", 0), backlog=1_024) as server:
        yield server.getsockname()[1]


@contextmanager
def answering() -> Iterator[int]:
    """Yield the port of a server that accepts everything."""
    command = [sys.executable, "-c", ANSWERING]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            yield int(server.stdout.readline())
        finally:
            server.kill()


def resident_mib() -> float:
    """Return the memory of this process, after collecting garbage."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def peak_mib() -> float:
    """Return the most memory that this process has had.

    What it has at the end differs by 1 MiB between equal runs without a channel: the allocator
    keeps a freed block or returns it, depending on the random addresses of the process.
    """
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


if __name__ == "__main__":
    if len(sys.argv) > 1:
        measure = {"sandwich": sandwich, "alone": burst}[sys.argv[1]]
        print(json.dumps(measure(int(sys.argv[2]))))
    else:
        from table import show

        show(list(burst_rows()), {})
