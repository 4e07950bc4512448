"""Runs that are killed at one write after the other. Started as a script.

One process imports klarm once and forks a child for every crash point, so that hundreds of crashes
take a minute. The child's os.write writes a part of its data and then kills the child. The run that
is killed has taken up an earlier process's run with an open incident, opens and ends incidents of
its own, goes back once, takes snapshots, and delivers.
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
from klarm.journal import FILE_NAME, Fold, Step, read_journal
from klarm.monitor import Monitor

ONE_DETECTOR = {"kl_explosion": {"confirm_steps": 2, "resolve_after": 4}}
# What is watched, beside the defaults. A run that writes more files has more crash points.
SETTINGS: dict[str, object] = {
    **{name: {"enabled": False} for name in ("kl_runaway", "kl_budget", "metric_lost")},
    **ONE_DETECTOR,
    "incidents": {"reopen_within": 0},  # what comes back is an incident of its own
}
# How much of the data reaches the disk: nothing, half a line or batch, all of it.
PARTS = (0.0, 0.5, 1.0)
FIRST_PROCESS = 33  # rows; it ends while an incident is open
# A snapshot after so many rows, so that this short run has several.
SNAPSHOT_ROWS = 10

Row = tuple[int, dict[str, float]]


def rows() -> list[Row]:
    """A run whose KL explodes, comes back, is NaN, goes back in time, and is NaN again."""
    rng = random.Random(3)
    levels = [0.02] * 30 + [3.0] * 3 + [90.0] * 3 + [0.02] * 10 + [float("nan")] * 2 + [0.02] * 3
    steps = list(range(len(levels)))
    back = 44  # to before the NaN
    levels += [0.02] * 8 + [float("nan")] + [0.02] * 6
    steps += range(back, back + 15)
    values = [
        {"kl": level * rng.lognormvariate(0, 0.1), "reward": rng.random()} for level in levels
    ]
    return list(zip(steps, values, strict=True))


def train(directory: Path, first: int = 0, end: int | None = None, **settings: object) -> None:
    """Log the rows from one on, and save a checkpoint now and then."""
    monitor = klarm.init("run", dir=str(directory), console=False, **{**SETTINGS, **settings})
    for step, row in rows()[first:end]:
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
    """Print, as a line of JSON per crash, what was recorded and where.

    Arguments: the place, a configuration with a channel, and every how many writes to crash.
    """
    place, config, every = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    os.environ["KLARM_CONFIG"] = config
    Monitor.__init__.__kwdefaults__["snapshot_rows"] = SNAPSHOT_ROWS  # type: ignore[index]
    straight = place / "straight"
    straight.mkdir()
    in_child(lambda: train(straight, end=FIRST_PROCESS))
    begun = place / "begun"
    shutil.copytree(straight, begun)
    writes = in_child(lambda: train(straight, FIRST_PROCESS))
    report(straight, crash=-1, part=1.0, how="straight")
    for crash in range(0, writes, every):
        part = PARTS[(crash // every) % len(PARTS)]
        crashed = place / f"crash-{crash}"
        shutil.copytree(begun, crashed)
        in_child(lambda at=crashed: train(at, FIRST_PROCESS), crash, part)  # type: ignore[misc]
        alone = place / f"deliver-{crash}"
        shutil.copytree(crashed, alone)
        in_child(lambda at=alone: deliver(at))  # type: ignore[misc]
        report(alone, crash, part, "deliver")
        recorded = read_journal(crashed / "run" / FILE_NAME)
        first = sum(isinstance(record, Step) for record in recorded)
        in_child(lambda at=crashed, row=first: train(at, row))  # type: ignore[misc]
        report(crashed, crash, part, "restart")


def report(directory: Path, crash: int, part: float, how: str) -> None:
    fold = Fold(directory / "run" / FILE_NAME)
    events = fold.update()
    reported = [(e.id, e.event, e.step, e.reason, e.signal, e.severity) for e in events]
    undone = [record.id for record in fold.incidents.values() if record.was_rolled_back]
    print(
        json.dumps(
            {"how": how, "crash": crash, "part": part, "events": reported, "undone": undone}
        ),
        flush=True,
    )


if __name__ == "__main__":
    main()
