"""Reading journals, answering, telling what is new. Times include the way over HTTP on loopback."""

from __future__ import annotations

import json
import math
import tempfile
import threading
import time
from http.client import HTTPConnection
from pathlib import Path
from statistics import median, quantiles

from klarm.journal import FileJournal, Started
from klarm.server.database import Database
from klarm.server.run_index import RunIndex
from page.journals import METRICS, SPIKE, STEPS
from page.served import Served, seconds
from page.targets import at_least, at_most
from table import Row

RUNS, STEPS_PER_RUN = 1000, 300
LIVE_RUNS, LIVE_SECONDS, STEP_SECONDS = 50, 20.0, 0.5


def long_run(root: Path) -> list[Row]:
    """Index a run of a million steps and ask for its curves."""
    speed, speed_alone = indexing_speed(root)
    with Served(root) as served:
        begin, begin_alone = time.perf_counter(), time.process_time()
        served.wait_until_read()
        first_start = time.perf_counter() - begin
        first_start_alone = time.process_time() - begin_alone
    with Served(root) as served:
        begin = time.perf_counter()
        served.wait_until_read()
        second_start = time.perf_counter() - begin
        overview = seconds(lambda: served.get("/runs/long"))
        wide = f"/runs/long/series?width=1200&metrics={','.join(METRICS)}"
        every = seconds(lambda: served.get(wide))
        narrow = seconds(
            lambda: [
                served.get("/runs/long/series?width=1200&metrics=kl"),
                served.get(f"/runs/long/series?width=320&metrics={','.join(METRICS[1:])}"),
            ]
        )
        zoomed = seconds(lambda: served.get(f"{wide}&from=500000&to=510000"))
        baseline = seconds(lambda: served.get("/runs/long/baseline?width=1200"))
        found = served.get(wide)["series"]["kl"]
        spike = max(zip(found["y"], found["x"], strict=True))
    if spike != (99.0, float(SPIKE)):
        raise AssertionError(f"the spike is lost: {spike}")
    return [
        at_least("index lines, in the process", "lines/s", speed, 100_000),
        Row("the same per second of processor time", "lines/s", speed_alone),
        at_least("index lines, while serving", "lines/s", STEPS / first_start, 100_000),
        Row("the same per second of processor time", "lines/s", STEPS / first_start_alone),
        at_most("second start, nothing is new", "s", second_start, 1.0),
        at_most("1,000,000 steps: the run", "s", overview, 1.0),
        at_most("1,000,000 steps: KL wide, 9 small", "s", narrow, 1.0),
        at_most("1,000,000 steps: 10 metrics wide", "s", every, 1.0),
        at_most("1,000,000 steps: 10 metrics zoomed", "s", zoomed, 0.2),
        at_most("1,000,000 steps: baseline of KL", "s", baseline, 1.0),
    ]


def indexing_speed(root: Path) -> tuple[float, float]:
    """Return how many lines are indexed, without a server, per second and per processor second."""
    with tempfile.TemporaryDirectory() as folder:
        database = Database(Path(folder), print)
        database.writer.execute("INSERT INTO runs (run, id, folder) VALUES (1, 'a', x'61')")
        index = RunIndex(1, root / "long")
        begin, begin_alone = time.perf_counter(), time.process_time()
        while True:
            with database.writing() as writer:
                if not index.read(writer).what:
                    break
        took, took_alone = time.perf_counter() - begin, time.process_time() - begin_alone
        database.close()
    return STEPS / took, STEPS / took_alone


def many_runs(root: Path) -> list[Row]:
    """Ask for the overview of very many runs."""
    with Served(root) as served:
        begin, begin_alone = time.perf_counter(), time.process_time()
        served.wait_until_read()
        read, read_alone = time.perf_counter() - begin, time.process_time() - begin_alone
        found = served.get("/runs")
        if len(found["runs"]) != RUNS:
            raise AssertionError(len(found["runs"]))
        overview = seconds(lambda: served.get("/runs"))
    return [
        at_least("1,000 runs: index lines", "lines/s", RUNS * STEPS_PER_RUN / read, 100_000),
        Row("the same per second of processor time", "lines/s", RUNS * STEPS_PER_RUN / read_alone),
        at_most("1,000 runs: the overview", "s", overview, 1.0),
    ]


def live_runs(root: Path) -> list[Row]:
    """Measure from a line in a journal to its event, while many runs train."""
    journals = []
    for number in range(LIVE_RUNS):
        journal = FileJournal(root / f"run-{number:02}", print)
        journal.record(Started(f"run-{number:02}", time.time(), "", "", {}))
        journals.append(journal)
    written: dict[tuple[str, int], float] = {}
    delays: list[float] = []
    with Served(root) as served:
        served.wait_until_read()
        stopped = threading.Event()
        listener = threading.Thread(
            target=listen, args=(served.port, written, delays, stopped), daemon=True
        )
        listener.start()
        time.sleep(1.0)
        step, begin = 0, time.perf_counter()
        while time.perf_counter() - begin < LIVE_SECONDS:
            step += 1
            for number, journal in enumerate(journals):
                written[f"run-{number:02}", step] = time.perf_counter()
                journal.step(step, time.time(), dict.fromkeys(METRICS, math.sin(step)))
                time.sleep(STEP_SECONDS / LIVE_RUNS)
        time.sleep(1.5)
        stopped.set()
    for journal in journals:
        journal.close(1.0)
    if len(delays) != len(written):
        print(f"{len(written) - len(delays)} of {len(written)} steps were never reported")
    return [
        Row("50 live runs: line to event, median", "s", median(delays)),
        at_most("50 live runs: line to event, p95", "s", quantiles(delays, n=20)[-1], 1.0),
    ]


def listen(
    port: int,
    written: dict[tuple[str, int], float],
    delays: list[float],
    stopped: threading.Event,
) -> None:
    """Note when each step that was written is reported."""
    seen: dict[str, int] = {}
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/api/v1/events")
    answer = connection.getresponse()
    while not stopped.is_set() and (line := answer.readline()):
        if line.startswith(b"data: "):
            now = time.perf_counter()
            for change in json.loads(line[6:]).get("runs", ()):
                run, last = change["run"], change.get("last_step") or 0
                new = range(seen.get(run, 0) + 1, last + 1)
                delays += [now - written[run, step] for step in new]
                seen[run] = max(last, seen.get(run, 0))
