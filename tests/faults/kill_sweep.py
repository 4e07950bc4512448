"""Runs that are killed at one write after the other. test_kill_sweep.py starts this as a script.

One process imports klarm once and forks a child for every crash point, so that hundreds of crashes
take a minute. The child's os.write writes a part of its data and then kills the child.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import klarm
from klarm import api
from klarm.cli.group import klarm as command
from klarm.journal import FILE_NAME, Fold

ONE_DETECTOR = {"kl_explosion": {"confirm_steps": 2, "resolve_after": 4}}
# How much of the data reaches the disk: nothing, half a line or batch, all of it.
PARTS = (0.0, 0.5, 1.0)


def rows() -> list[dict[str, float]]:
    """A run whose KL explodes, settles, explodes again, comes back, and is NaN once."""
    rng = random.Random(3)
    levels = [0.02] * 30 + [3.0] * 6 + [0.02] * 16 + [float("nan")] + [0.02] * 6
    return [{"kl": level * rng.lognormvariate(0, 0.1), "reward": rng.random()} for level in levels]


def train(directory: Path, first: int = 0, **settings: object) -> None:
    """Log the rows from one on, and save a checkpoint now and then."""
    own = {name: {"enabled": False} for name in ("kl_runaway", "kl_budget", "metric_lost")}
    options = {**own, **ONE_DETECTOR, **settings}
    monitor = klarm.init("run", dir=str(directory), console=False, **options)
    for step, row in enumerate(rows()):
        if step >= first:
            monitor.log(row, step)
            if step % 20 == 0:
                monitor.checkpoint(step, f"s3://bucket/{step}")
    klarm.finish()


def deliver(directory: Path) -> None:
    """Send what is pending, as `klarm deliver` does."""
    os.chdir(directory)
    command.main(["deliver", str(directory)], standalone_mode=False)


def in_child(work: Callable[[], None], crash_at: int | None = None, part: float = 0.0) -> int:
    """Do something in a child that is killed at a write; return how many writes it came to."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        count = 0
        write = os.write

        def killing(file: int, data: bytes) -> int:
            nonlocal count
            if count == crash_at:
                write(file, bytes(data)[: int(len(data) * part)])
                os.kill(os.getpid(), signal.SIGKILL)
            count += 1
            return write(file, data)

        os.write = killing
        try:
            work()
        finally:
            api._replace_current(None)
            write(writing, str(count).encode())
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        said = answer.read()
    os.waitpid(child, 0)
    return int(said or 0)


def main() -> None:
    """Print, as a line of JSON per crash, what was recorded and where."""
    place, config = Path(sys.argv[1]), sys.argv[2]
    straight = place / "straight"
    straight.mkdir()
    writes = in_child(lambda: train(straight, deliver="elsewhere"))
    report(straight, crash=-1, part=1.0, how="straight")
    for crash in range(writes):
        part = PARTS[crash % len(PARTS)]
        crashed = place / f"crash-{crash}"
        crashed.mkdir()
        os.environ.pop("KLARM_CONFIG", None)
        in_child(lambda at=crashed: train(at, deliver="elsewhere"), crash, part)  # type: ignore[misc]
        os.environ["KLARM_CONFIG"] = config
        alone = place / f"deliver-{crash}"
        shutil.copytree(crashed, alone)
        in_child(lambda at=alone: deliver(at))  # type: ignore[misc]
        report(alone, crash, part, "deliver")
        fold = Fold(crashed / "run" / FILE_NAME)
        fold.update()
        first = 0 if fold.last_step is None else fold.last_step + 1
        in_child(lambda at=crashed, step=first: train(at, step))  # type: ignore[misc]
        report(crashed, crash, part, "restart")


def report(directory: Path, crash: int, part: float, how: str) -> None:
    journal = directory / "run" / FILE_NAME
    fold = Fold(journal)
    events = fold.update()
    told = [(e.id, e.event, e.step, e.reason, e.signal, e.severity) for e in events]
    undone = [record.id for record in fold.incidents.values() if record.was_rolled_back]
    print(
        json.dumps({"how": how, "crash": crash, "part": part, "events": told, "undone": undone}),
        flush=True,
    )


if __name__ == "__main__":
    main()
