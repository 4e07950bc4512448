"""Compares the alerts of this checkout with those of an earlier commit, run by run.

`make same-alerts REV=bdee56f` runs it. Recorded, framework and generated runs go through the public
API of both versions, in processes of their own. What is compared is the raw JSON of the alerts in
each side's journal, which neither side's reader touches.

Detector, severity and step must be the same everywhere, and for the specified rules every number
must have the same bits. What else differs is listed: keys of `metrics` by detector, and texts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

from framework_runs import archive
from quality import real_runs
from quality.generators import FAILURES, HEALTHY, SEEDS, generate

ROOT = Path(__file__).resolve().parents[1]
SPECIFIED = ("kl_explosion", "reward_hacking")
GENERATED_OF_A_KIND = 40
RUNS_PER_PROCESS = 30
MAX_LISTED = 12

Alert = dict[str, Any]

# Runs in a process with one of the two versions: logs runs, one per line, into the folder given.
WATCH = """
import json, sys
import klarm
for line in sys.stdin:
    run = json.loads(line)
    monitor = klarm.init(run["name"], dir=sys.argv[1], console=False, framework=run["framework"],
                         kl_explosion={"baseline_mode": run["mode"]}, deliver="elsewhere")
    for step, metrics in run["rows"]:
        monitor.log(metrics, step)
    monitor.finish()
"""


def main() -> None:
    """Feed both versions, compare, and exit with 1 if what must be the same is not."""
    parser = ArgumentParser(prog="make same-alerts", description=__doc__)
    parser.add_argument("revision", help="the earlier commit")
    parser.add_argument("--quick", action="store_true", help="every tenth run")
    asked = parser.parse_args()
    found = Differences()
    with tempfile.TemporaryDirectory() as place:
        before = Path(place) / "before"
        before.mkdir()
        archived = subprocess.run(
            ["git", "archive", asked.revision, "src"], cwd=ROOT, capture_output=True, check=True
        )
        subprocess.run(["tar", "-x", "-C", before], input=archived.stdout, check=True)
        both = before / "src", ROOT / "src"
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            batches = list(batched(islice(runs(), 0, None, 10 if asked.quick else 1)))
            for number, (batch, pairs) in enumerate(
                zip(batches, pool.map(lambda batch: watched(batch, *both), batches), strict=True), 1
            ):
                for run, (old, new) in zip(batch, pairs, strict=True):
                    found.compare(run["name"], old, new)
                print(f"\r{number} of {len(batches)} batches", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    found.show(asked.revision)
    sys.exit(found.is_wrong)


def runs() -> Iterator[dict[str, Any]]:
    """Yield all runs: their names, rows and the baseline mode of kl_explosion."""
    for path in real_runs.recorded(real_runs.FOLDER):
        for mode in ("rolling", "frozen"):
            yield made(f"recorded-{path.stem}", real_runs.rows_of(path), mode)
    for entry in archive.entries(archive.read()):
        framework = f"{entry['framework']}/{entry['algorithm']}"
        yield made(f"framework-{entry['name']}", entry["rows"], framework=framework)
    for number, kind in enumerate((HEALTHY, *FAILURES)):
        for seed in SEEDS["tuning"][:GENERATED_OF_A_KIND]:
            run = generate(kind, seed)
            metric = "kl" if seed % 4 else "kl_old"
            rows = [
                (step, {metric: value})
                for step, value in zip(run.steps.tolist(), run.kl.tolist(), strict=True)
            ]
            yield made(f"generated-{kind}-{seed}", rows, ("rolling", "frozen")[(seed + number) % 2])


def made(name: str, rows: list[Any], mode: str = "rolling", framework: str = "") -> dict[str, Any]:
    """Return a run as WATCH reads it."""
    return {"name": f"{name}-{mode}", "rows": rows, "mode": mode, "framework": framework}


def batched(every: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Yield the runs in lists for one process."""
    while batch := list(islice(every, RUNS_PER_PROCESS)):
        yield batch


def watched(batch: list[dict[str, Any]], before: Path, now: Path) -> list[tuple[list[Alert], ...]]:
    """Return the alerts of both versions on each run."""
    told = [alerts(batch, source) for source in (before, now)]
    return list(zip(*told, strict=True))


def alerts(batch: list[dict[str, Any]], source: Path) -> list[list[Alert]]:
    """Log the runs to a version; return the alerts in their journals, as they stand there."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", WATCH, folder],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(source)},
            input="".join(json.dumps(run) + "\n" for run in batch),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            sys.exit(done.stderr)
        return [list(alerts_in(Path(folder) / run["name"] / "journal.jsonl")) for run in batch]


def alerts_in(journal: Path) -> Iterator[Alert]:
    """Yield the alerts of a journal."""
    with journal.open() as lines:
        for line in lines:
            if line.startswith('{"type":"alert"'):
                yield json.loads(line)


class Differences:
    """What differs between two versions, over all runs."""

    def __init__(self) -> None:
        self.runs = self.alerts = 0
        self.said: list[str] = []  # other alerts: detector, severity or step
        self.numbers: Counter[tuple[str, str, str]] = Counter()  # detector, key, how
        self.texts: dict[str, tuple[int, str, str]] = {}  # by detector, severity and field

    @property
    def is_wrong(self) -> bool:
        """Whether something differs that must be the same."""
        changed = (detector for detector, _, how in self.numbers if how != "new")
        return bool(self.said) or any(detector in SPECIFIED for detector in changed)

    def compare(self, run: str, old: list[Alert], new: list[Alert]) -> None:
        """Add what differs in a run."""
        self.runs += 1
        self.alerts += len(old)
        if [identity(alert) for alert in old] != [identity(alert) for alert in new]:
            gone, come = (Counter(map(identity, side)) for side in (old, new))
            some = [f"-{which}" for which in gone - come] + [f"+{which}" for which in come - gone]
            self.said.append(f"{run}: {', '.join(some[:4]) or 'in another order'}")
            return
        for was, now in zip(old, new, strict=True):
            self._compare_alert(was, now)

    def _compare_alert(self, old: Alert, new: Alert) -> None:
        detector, before, after = old["detector"], old["metrics"], new["metrics"]
        for key in before.keys() | after.keys():
            if key not in after:
                self.numbers[detector, key, "gone"] += 1
            elif key not in before:
                self.numbers[detector, key, "new"] += 1
            elif before[key] != after[key]:
                self.numbers[detector, key, "different"] += 1
        for field in ("message", "recommendation"):
            was, now = old.get(field, ""), new.get(field, "")
            if was != now:
                place = f"{detector}, {old['severity']}, {field}"
                count = self.texts.get(place, (0, "", ""))[0]
                self.texts[place] = count + 1, was, now

    def show(self, revision: str) -> None:
        """Print the report."""
        print(f"{self.runs} runs, {self.alerts} alerts at {revision}")
        print(f"runs with other alerts (detector, severity or step): {len(self.said)}")
        for line in self.said[:MAX_LISTED]:
            print(f"  {line}")
        print(f"keys of metrics that differ: {len(self.numbers)}")
        for (detector, key, how), count in sorted(self.numbers.items()):
            print(f"  {detector}.{key}: {how} in {count} alerts")
        print(f"texts that differ: {len(self.texts)} kinds")
        for place, (count, was, now) in sorted(self.texts.items()):
            print(f"  {place}: {count} times, the last\n    - {was}\n    + {now}")


def identity(alert: Alert) -> tuple[str, str, int]:
    """Return what must be the same."""
    return alert["detector"], alert["severity"], alert["step"]


if __name__ == "__main__":
    main()
