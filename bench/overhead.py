"""Measures what watching costs: klarm beside rlwatch, in one run.

The two alternate, so that other load on the machine affects both; a value is the median over the
turns. The ratio matters; absolute values are context. A missed target is shown, but is not an
error. `make bench` runs it, on Linux only, and writes the rows to bench/results/overhead.json.
"""

from __future__ import annotations

import gc
import os
import platform
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from time import perf_counter, perf_counter_ns
from typing import Any

import numpy as np
from rlwatch import RLWatch, RLWatchConfig
from rlwatch.config import KLExplosionConfig
from rlwatch.detectors import DetectorSuite
from rlwatch.detectors import KLExplosionDetector as PeerDetector

import klarm
from burst import burst_rows
from klarm.detectors import CATALOGUE, KLExplosionDetector
from klarm.metrics import Binding
from table import Row, cost, show, write

RESULTS = Path(__file__).resolve().parent / "results"

# So high that there is no alert: the measured run is healthy.
SIGMAS = 50.0
PEER_DETECTS = (
    "entropy",
    "kl_divergence",
    "reward_mean",
    "reward_std",
    "advantage_std",
    "loss",
    "grad_norm",
)
# Logged besides KL; rlwatch has a parameter for all of them except the last.
OTHER_METRICS = (
    "entropy",
    "reward_mean",
    "reward_std",
    "advantage_std",
    "loss",
    "learning_rate",
    "clip_fraction",
    "grad_norm",
    "length",
)
LOG_STEPS = 20_000
WARM_STEPS, MEMORY_STEPS = 1_000, 1_000_000


def main() -> None:
    """Measure everything, print the table and write it to a file."""
    RESULTS.mkdir(exist_ok=True)
    os.chdir(RESULTS)  # not in the checkout, where a klarm.yaml would be used
    groups = {
        "the KL detector alone": detector_rows,
        "log calls, with everything recorded": log_rows,
        "a burst of incidents, with channels": burst_rows,
        "imports": import_rows,
        "scores of a whole series": scores_rows,
        "memory over a million steps": memory_rows,
    }
    machine = {
        "klarm": version("klarm"),
        "rlwatch": version("rlwatch"),
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "load_at_start": round(os.getloadavg()[0], 2),
    }
    rows: list[Row] = []
    for what, measure in groups.items():
        print(f"measuring {what} ...", file=sys.stderr, flush=True)
        rows += measure()
    write(rows, machine, RESULTS / "overhead.json")
    show(rows, machine)


def take_turns(turns: int, contenders: dict[str, Callable[[], Any]]) -> dict[str, list[Any]]:
    """Measure every contender once per turn; return the measurements of each."""
    measured: dict[str, list[Any]] = {name: [] for name in contenders}
    for _ in range(turns):
        for name, measure in contenders.items():
            measured[name].append(measure())
    return measured


def kl_values(count: int) -> list[float]:
    """Return the KL of a healthy run."""
    return np.random.default_rng(0).lognormal(-4.0, 0.5, count).tolist()


@contextmanager
def scratch() -> Iterator[str]:
    """Yield a new folder on the disk of this checkout, because others may be in memory.

    Earlier writes are flushed first, so that a contender does not wait for those of another.
    """
    os.sync()
    with tempfile.TemporaryDirectory(dir=RESULTS) as folder:
        yield folder


def detector_rows() -> Iterator[Row]:
    """Measure a step of the KL detector."""
    contenders = {
        "klarm 100": klarm_steps(100),
        "peer 100": peer_steps(100, steps=1_000),
        "klarm 10000": klarm_steps(10_000),
        "peer 10000": peer_steps(10_000, steps=100),
    }
    step = {name: median(times) for name, times in take_turns(31, contenders).items()}
    short, long = step["klarm 100"], step["klarm 10000"]
    yield cost("KL detector, window 100", "µs", short, step["peer 100"], 15)
    yield cost("KL detector, window 10,000", "µs", long, step["peer 10000"], 200)
    growth, peers = long / short, step["peer 10000"] / step["peer 100"]
    yield Row("window 10,000 against 100", "×", growth, peers, None, "≤ 1.3×", growth <= 1.3)
    yield from all_detectors_rows()


def all_detectors_rows() -> Iterator[Row]:
    """Measure a step of all detectors, called as by the monitor, with defaults, on ten metrics."""
    names = Binding()  # as detectors get them from the monitor
    ours = [names.read(row) for row in metric_rows("kl", 10_000)]
    peers = metric_rows("kl_divergence", 500)
    detectors = [kind() for kind in CATALOGUE]
    suite = DetectorSuite(RLWatchConfig())

    def klarm_step(step: int, row: dict[str, float]) -> None:
        for detector in detectors:
            detector.update(step, row)

    def peer_step(step: int, row: dict[str, float]) -> None:
        suite.check_step(step, **{name: row[name] for name in PEER_DETECTS})

    contenders = {"klarm": step_timer(klarm_step, ours), "peer": step_timer(peer_step, peers)}
    for measure in contenders.values():
        measure()
    step = {name: median(times) for name, times in take_turns(15, contenders).items()}
    what = f"all detectors ({len(detectors)}, rlwatch 7)"
    yield cost(what, "µs", step["klarm"], step["peer"], 3)


def klarm_steps(window: int) -> Callable[[], float]:
    """Return a function that times klarm's detector with a full window.

    A turn is a whole number of windows, so it includes what the detector does once per window.
    """
    detector = KLExplosionDetector(rolling_window=window, sigma_multiplier=SIGMAS)
    measure = step_timer(detector.update, [{"kl": value} for value in kl_values(10_000)])
    measure()
    return measure


def peer_steps(window: int, steps: int) -> Callable[[], float]:
    """Return a function that times some steps of rlwatch's detector with a full window."""
    detector = PeerDetector(KLExplosionConfig(rolling_window=window, sigma_multiplier=SIGMAS))
    for step, value in enumerate(kl_values(window)):
        detector.check(step, value)
    return step_timer(detector.check, kl_values(steps))


def step_timer(call: Callable[[int, object], object], rows: Sequence) -> Callable[[], float]:
    """Return a function that makes one call per row and returns the microseconds per call."""

    def feed() -> None:
        for step, row in enumerate(rows):
            call(step, row)

    return lambda: seconds(feed) / len(rows) * 1e6


def seconds(call: Callable[[], object]) -> float:
    """Return how long a call takes."""
    start = perf_counter()
    call()
    return perf_counter() - start


def log_rows() -> Iterator[Row]:
    """Measure every call of runs that log ten metrics, everything recorded.

    This is done with the one detector that both have, and with all default detectors of each.
    """
    ours, peers = metric_rows("kl", LOG_STEPS), metric_rows("kl_divergence", LOG_STEPS)
    contenders = {
        "klarm": lambda: klarm_log(ours, one=True),
        "peer": lambda: peer_log(peers, one=True),
        "klarm, all": lambda: klarm_log(ours, one=False),
        "peer, all": lambda: peer_log(peers, one=False),
    }
    turns = take_turns(5, contenders)
    # The target with one detector, and with all of them.
    for share, times, times_all in ((0.5, 4, 4), (0.99, 5, 4), (0.999, 40, None)):
        at = int(share * LOG_STEPS)
        latency = {side: median(sorted(turn)[at] for turn in turns[side]) / 1e3 for side in turns}
        what = f"log, ten metrics, p{100 * share:g}"
        yield cost(what, "µs", latency["klarm"], latency["peer"], times)
        yield cost(
            "  with all detectors", "µs", latency["klarm, all"], latency["peer, all"], times_all
        )


def metric_rows(kl_name: str, count: int) -> list[dict[str, float]]:
    """Return steps of ten metrics; all but KL are uniform, so that no detector sees a spike."""
    names = (kl_name, *OTHER_METRICS)
    others = np.random.default_rng(1).uniform(2.0, 3.0, (count, len(OTHER_METRICS)))
    others[:, OTHER_METRICS.index("clip_fraction")] /= 100.0
    steps = np.column_stack([kl_values(count), others]).tolist()
    return [dict(zip(names, values, strict=True)) for values in steps]


def klarm_log(rows: list[dict[str, float]], *, one: bool) -> list[int]:
    """Return the nanoseconds of every `log` of a run."""
    with klarm_run(len(rows), one=one) as monitor:
        return call_times(lambda step: monitor.log(rows[step], step=step), len(rows))


@contextmanager
def klarm_run(steps: int, *, one: bool) -> Iterator[klarm.Monitor]:
    """Yield a monitor with a journal; raise unless it records all steps and no alert.

    klarm never raises while it watches, so failing at every step would look fast.
    """
    settings = {kind.name: {"enabled": False} for kind in CATALOGUE if one}
    settings["kl_explosion"] = {"sigma_multiplier": SIGMAS}
    with scratch() as folder:
        monitor = klarm.init("bench", console=False, dir=folder, **settings)
        yield monitor
        monitor.finish()
        with (Path(folder) / "bench" / "journal.jsonl").open("rb") as journal:
            kinds = Counter(line[:15] for line in journal)  # as in {"type":"step",
    recorded, alerts = kinds[b'{"type":"step",'], kinds[b'{"type":"alert"']
    if recorded != steps or alerts:
        raise RuntimeError(f"klarm recorded {recorded} of {steps} steps and {alerts} alerts")


def peer_log(rows: list[dict[str, float]], *, one: bool) -> list[int]:
    """Return the nanoseconds of every `log_step` of a run, stored in SQLite as by default."""
    with scratch() as folder:
        monitor = RLWatch(peer_config(folder, one=one))
        monitor.start()
        times = call_times(lambda step: monitor.log_step(step, **rows[step]), len(rows))
        stored, alerts = len(monitor.store.get_metrics()), monitor.alert_manager.total_alerts_sent
        monitor.stop()
    if stored != len(rows) or alerts:
        raise RuntimeError(f"rlwatch stored {stored} of {len(rows)} steps and sent {alerts} alerts")
    return times


def peer_config(folder: str, *, one: bool) -> RLWatchConfig:
    """Return rlwatch's defaults, or only the detector that both have."""
    config = RLWatchConfig()
    config.storage.log_dir = folder
    for name, section in vars(config).items():
        if one and hasattr(section, "enabled"):
            section.enabled = name == "kl_explosion"
    config.kl_explosion.sigma_multiplier = SIGMAS
    return config


def call_times(call: Callable[[int], object], steps: int) -> list[int]:
    """Return the nanoseconds of each of some calls."""
    times = []
    for step in range(steps):
        start = perf_counter_ns()
        call(step)
        times.append(perf_counter_ns() - start)
    return times


def import_rows() -> Iterator[Row]:
    """Measure what imports add to the life of a fresh interpreter."""
    scripts = {
        "nothing": "",
        "klarm": "import klarm",
        "peer": "import rlwatch",
        "klarm started": "import klarm; klarm.init('bench', console=False)",
        "peer started": "import rlwatch; rlwatch.attach(framework='manual')",
    }
    contenders = {name: lambda code=code: interpreter_ms(code) for name, code in scripts.items()}
    whole = {name: median(times) for name, times in take_turns(15, contenders).items()}
    more = {name: ms - whole["nothing"] for name, ms in whole.items()}
    ours = more["klarm"]
    yield cost("import", "ms", ours, more["peer"], 10)
    yield Row("import, over bare interpreter", "ms", ours, target="< 80 ms", met=ours < 80)
    yield cost("import and start", "ms", more["klarm started"], more["peer started"])


def interpreter_ms(code: str) -> float:
    """Return the milliseconds that an interpreter takes to run a script in a new folder."""
    command = [sys.executable, "-c", code]
    with tempfile.TemporaryDirectory() as folder:
        run = partial(subprocess.run, command, cwd=folder, check=True, capture_output=True)
        return seconds(run) * 1e3


def scores_rows() -> Iterator[Row]:
    """Measure how fast a recorded series is scored; rlwatch processes it step by step."""
    scores = KLExplosionDetector().scores
    clean = np.array(kl_values(1_000_000))
    spiky = clean.copy()
    spiky[::1_000] = 1e12
    contenders = {
        "clean": lambda: seconds(lambda: scores(clean)) / len(clean) * 1e6,
        "1e12 spikes": lambda: seconds(lambda: scores(spiky)) / len(spiky) * 1e6,
        "peer": peer_steps(100, steps=1_000),
    }
    rate = {name: 1 / median(times) for name, times in take_turns(11, contenders).items()}
    for kind in ("clean", "1e12 spikes"):
        ours, peers = rate[kind], rate["peer"]
        what = f"steps scored, {kind}"
        yield Row(what, "M/s", ours, peers, ours / peers, "≥ 5 M/s", ours >= 5)


def memory_rows() -> Iterator[Row]:
    """Measure how much memory a long run keeps, in a separate process."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        warm, late = process.submit(resident_mib).result()
    grown, what = late - warm, f"memory grown, {MEMORY_STEPS:,} steps"
    yield Row(what, "MiB", grown, target="< 1 MiB", met=grown < 1)


def resident_mib() -> tuple[float, float]:
    """Return the memory of this process after warm-up, and after a long run."""
    rows = metric_rows("kl", WARM_STEPS)
    with klarm_run(MEMORY_STEPS, one=False) as monitor:
        for step in range(MEMORY_STEPS):
            monitor.log(rows[step % WARM_STEPS], step=step)
            if step + 1 == WARM_STEPS:
                warm = resident_mib_now()
        late = resident_mib_now()
    return warm, late


def resident_mib_now() -> float:
    """Return the memory of this process, after collecting garbage."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


if __name__ == "__main__":
    main()
