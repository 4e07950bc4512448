"""Runs that are killed at random moments, and whoever delivers them, too. Started as a script.

One process imports klarm once and forks a child for every life, so that hundreds of kills take a
minute. A run is killed while it trains and delivers; then `klarm deliver` is killed, or the next
start; then one of them is called until it says that nothing is left.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import klarm
import klarm.channels.webhook
import klarm.delivery.dispatcher
from klarm.cli.group import klarm as command
from klarm.delivery import rejected, retry
from klarm.delivery.outbox import Outbox
from klarm.types import RINGING

MAX_CALLS = 25


def lose_patience() -> None:
    """Have hours of patience pass in a moment: what counts is that nothing is lost, not when."""
    rejected._FIRST_PAUSE_SECONDS = retry._FIRST_PAUSE_SECONDS = 0.02
    rejected._MAX_PAUSE_SECONDS = retry._MAX_PAUSE_SECONDS = 0.1
    retry.UNTIL_REPAIRED_SECONDS = 0.1


def train(ready: int) -> None:
    """A run on which incidents open and end all the time, for ever."""
    monitor = klarm.init(
        "a", console=False, incidents={"reopen_within": 0}, kl_explosion={"resolve_after": 2}
    )
    first = 0 if not monitor.taken_up else None
    for turn in range(10**9):
        value = float("nan") if turn % 8 < 3 else 0.1
        monitor.log({"kl": value}, None if first is None else first + turn)
        if turn == 3:
            os.write(ready, b".")
        time.sleep(0.002)


def start_again(ready: int) -> None:
    """The next start of the run: it goes on for a while and ends."""
    klarm.init("a", console=False)
    os.write(ready, b".")
    klarm.log({"kl": 0.1})
    klarm.finish(30)


def deliver(ready: int) -> None:
    """What cron calls."""
    os.write(ready, b".")
    command.main(["deliver", "klarm_runs/a", "--timeout", "10"], standalone_mode=False)


def child(work: Callable[[int], None], kill_after: float | None = None) -> int:
    """Let a child work, perhaps killed; return its exit code."""
    seeing, ready = os.pipe()
    pid = os.fork()
    if pid == 0:
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
        try:
            work(ready)
        except SystemExit as end:
            os._exit(int(end.code or 0))
        except BaseException:  # noqa: BLE001
            os._exit(70)
        os._exit(0)
    os.close(ready)
    if kill_after is not None:
        os.read(seeing, 1)
        time.sleep(kill_after)
        os.kill(pid, signal.SIGKILL)
    os.close(seeing)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def is_all_sent() -> bool:
    """Tell whether nothing is pending or rejected for the one channel there is."""
    outbox = Outbox(Path("klarm_runs/a"))
    outbox.refresh()
    pending = outbox.pending("ops", 0, 1000, lambda event: event.event in RINGING).events
    return not pending and not outbox.rejections("ops")


def main() -> None:
    """Print, as a line of JSON per run, what it recorded and how often it was killed."""
    place, url, kills, seed = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    chance = random.Random(seed)
    lose_patience()
    killed = number = 0
    while killed < kills:
        here = place / f"r{number}"
        here.mkdir()
        os.chdir(here)
        settings = f"{{type: webhook, url: '{url}/r{number}', timeout_seconds: 0.3}}"
        Path("klarm.yaml").write_text(f"channels: {{ops: {settings}}}\n")
        later = deliver if number % 2 else start_again
        if child(train, chance.uniform(0.0, 0.2)) != -signal.SIGKILL:
            raise RuntimeError("the run ended by itself")
        killed += 1
        if killed < kills:
            child(later, chance.uniform(0.0, 0.1))
            killed += 1
        calls = [0]
        while not is_all_sent() and len(calls) < MAX_CALLS:
            calls.append(child(later))
            time.sleep(0.1)
        events = [event for _, _, event in Outbox(Path("klarm_runs/a")).recorded()]
        reported = [(e.id, e.event, e.step) for e in events if e.event in RINGING]
        report = {"run": f"r{number}", "by": later.__name__, "calls": calls[1:], "events": reported}
        print(json.dumps(report), flush=True)
        number += 1


if __name__ == "__main__":
    main()
