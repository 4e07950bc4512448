"""Reading journals, answering, telling what is new. Times include the way over HTTP on loopback."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
import threading
import time
from http.client import HTTPConnection
from pathlib import Path
from statistics import median, quantiles

from klarm.journal import FILE_NAME, FileJournal, Started
from klarm.runs import Columns, RunState, store_of
from page.journals import METRICS, SPIKE, STEPS, copy_run, write_run
from page.served import Served, ServedAlone, seconds
from page.targets import at_most
from table import Row

RUNS, STEPS_PER_RUN = 1000, 1000
IDLE_RUNS, IDLE_SECONDS = 10_000, 60.0
LIVE_RUNS, LIVE_SECONDS, STEP_SECONDS = 50, 20.0, 0.5


def long_run(root: Path) -> list[Row]:
    """Read a run of a million steps of 40 metrics, and ask for its curves."""
    cache = root.parent / "cache-of-long"
    size = (root / "long" / FILE_NAME).stat().st_size
    begin = time.perf_counter()
    with ServedAlone(root, cache) as served:
        served.wait_until_first()
        first = _first_curve(served)
        cold = time.perf_counter() - begin
        served.wait_until_read()
        warm = seconds(lambda: served.get("/runs/long/series?width=1200&metrics=kl"))
        wide = f"/runs/long/series?width=1200&metrics={','.join(METRICS)}"
        every = seconds(lambda: served.get(wide))
        run = seconds(lambda: served.get("/runs/long"))
        zoomed = seconds(lambda: served.get(f"{wide}&from=500000&to=510000"))
        baseline = seconds(lambda: served.get("/runs/long/baseline?width=1200"))
        memory = served.memory()
    spike = max(zip(first["y"], first["x"], strict=True))
    if spike != (99.0, float(SPIKE)):
        raise AssertionError(f"the spike is lost: {spike}")
    with ServedAlone(root, cache) as served:
        begin = time.perf_counter()
        served.wait_until_read()
        second_start = time.perf_counter() - begin
        begin = time.perf_counter()
        _first_curve(served)
        from_summary = time.perf_counter() - begin
    speed, columns_speed = reading_speed(root / "long")
    return [
        Row("1,000,000 steps of 40 metrics: size of the journal", "MB", size / 1e6),
        at_most("the same: first curve, cold", "s", cold, 20.0),
        at_most("the same: a curve, warm", "s", warm, 0.4),
        at_most("the same: 10 curves, warm", "s", every, 1.0),
        at_most("the same: 10 curves zoomed", "s", zoomed, 0.2),
        at_most("the same: the run", "s", run, 1.0),
        at_most("the same: baseline of KL", "s", baseline, 1.0),
        at_most("the same: memory of the server", "MB", memory, 600.0),
        at_most("second start, nothing is new", "s", second_start, 1.0),
        Row("first curve after a second start", "s", from_summary),
        Row("reading the state, in the process", "lines/s", speed),
        Row("reading columns, in the process", "lines/s", columns_speed),
        *commands(root),
    ]


def _first_curve(served: Served) -> dict[str, list[float]]:
    """Ask until all of KL is there."""
    while True:
        found = served.get("/runs/long/series?width=1200&metrics=kl")["series"]["kl"]
        if found["count"] == STEPS:
            return dict(found)
        time.sleep(0.1)


def reading_speed(folder: Path) -> tuple[float, float]:
    """Return how many lines per second are read into the state, and into columns."""
    store, run = store_of(folder)
    state = RunState(store, run)
    begin = time.perf_counter()
    for _ in state.read_all():
        pass
    took = time.perf_counter() - begin
    columns = Columns(store, run, [], expected_rows=state.fold.steps)
    begin = time.perf_counter()
    while columns.read(state.read_to):
        pass
    return STEPS / took, STEPS / (time.perf_counter() - begin)


def commands(root: Path) -> list[Row]:
    """Measure commands on the run of a million steps, once its summary is there."""
    found = []
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "XDG_CACHE_HOME": cache}

        def ran(*arguments: str) -> float:
            begin = time.perf_counter()
            command = [sys.executable, "-m", "klarm", *arguments]
            subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
            return time.perf_counter() - begin

        folder = str(root / "long")
        cold = ran("show", folder)
        found.append(Row("klarm show, 1,000,000 steps, cold", "s", cold))
        for name in ("show", "incidents"):
            warm = median([ran(name, folder) for _ in range(5)])
            found.append(at_most(f"klarm {name}, 1,000,000 steps, warm", "s", warm, 0.5))
    return found


def many_runs(root: Path) -> list[Row]:
    """Ask for the overview of very many runs."""
    cache = root.parent / "cache-of-many"
    begin = time.perf_counter()
    with ServedAlone(root, cache) as served:
        served.wait_until_first()
        first = time.perf_counter() - begin
        served.wait_until_read()
        read = time.perf_counter() - begin
        if len(served.get("/runs")["runs"]) != RUNS:
            raise AssertionError(served.get("/runs"))
        overview = seconds(lambda: served.get("/runs"))
    begin = time.perf_counter()
    with ServedAlone(root, cache) as served:
        served.wait_until_read()
        again = time.perf_counter() - begin
    what = f"{RUNS:,} runs of {STEPS_PER_RUN:,} steps of 40 metrics"
    return [
        Row(f"{what}: the first is shown, without summaries", "s", first),
        at_most(f"{what}: all are read, without summaries", "s", read, 30.0),
        at_most(f"{what}: start and list, from summaries", "s", again, 1.0),
        at_most(f"{what}: the overview", "s", overview, 1.0),
    ]


def idle_runs(root: Path) -> list[Row]:
    """Measure what very many runs cost that nobody trains and nobody looks at."""
    write_run(root / "one", 200)
    copy_run(root / "one", root / "idle", IDLE_RUNS)
    with ServedAlone(root / "idle", root / "cache") as served:
        served.wait_until_read()
        time.sleep(5.0)
        memory, used, begin = served.memory(), served.processor_seconds(), time.perf_counter()
        time.sleep(IDLE_SECONDS)
        share = (served.processor_seconds() - used) / (time.perf_counter() - begin)
        later = served.memory()
    what = f"{IDLE_RUNS:,} idle runs"
    return [
        Row(f"{what}: memory of the server", "MB", memory),
        Row(f"{what}: the same {IDLE_SECONDS:g} s later", "MB", later),
        Row(f"{what}: processor time", "%", 100.0 * share),
    ]


def huge_line(root: Path) -> list[Row]:
    """Measure how long one broken journal delays two others."""
    for name in ("a", "b", "c"):
        write_run(root / name, 1000)
    with (root / "b" / FILE_NAME).open("ab") as file:
        for _ in range(400):
            file.write(b"x" * 10**6)
        file.write(b"\n")
    begin = time.perf_counter()
    with ServedAlone(root, root.parent / "cache-of-huge") as served:
        while {"a", "c"} - {run["id"] for run in served.get("/runs")["runs"]}:
            time.sleep(0.02)
        others = time.perf_counter() - begin
        served.wait_until_read()
        every = time.perf_counter() - begin
    begin = time.perf_counter()
    command = [sys.executable, "-m", "klarm", "runs", str(root)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return [
        at_most("a line of 400 MB: the other runs are shown", "s", others, 1.0),
        Row("a line of 400 MB: all runs are read", "s", every),
        Row("a line of 400 MB: klarm runs", "s", time.perf_counter() - begin),
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
        at_most("50 live runs: line to event, p95", "s", quantiles(delays, n=20)[-1], 0.5),
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
