"""Flips bytes in the files of a run, and holds what klarm makes of them against what it says."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from kill_sweep import SETTINGS
from loopback import Server

import klarm
from klarm import api
from klarm.cli.group import klarm as command
from klarm.journal import Fold
from klarm.notices import Notices

HERE = Path(__file__).parent
# What klarm says of a file that is not as it wrote it.
REPORTS = ("damaged", "not written by klarm", "incomplete", "does not begin like a journal")
MAKE_RUNS = """
import os, sys
from pathlib import Path
import kill_sweep
os.environ["KLARM_CONFIG"] = sys.argv[1]
for name, deliver in (("sent", "here"), ("pending", "elsewhere")):
    place = Path(sys.argv[2]) / name
    kill_sweep.train(place, end=kill_sweep.FIRST_PROCESS, deliver=deliver)
    kill_sweep.train(place, kill_sweep.FIRST_PROCESS, deliver=deliver)
"""


@dataclass
class Outcome:
    """What came of all flips: by file, how many changed anything, and which did so in silence."""

    flips: Counter[str] = field(default_factory=Counter)
    differing: Counter[str] = field(default_factory=Counter)
    silent: list[tuple[str, int, str]] = field(default_factory=list)  # file, offset, who


class _Reader:
    """Does with a run what people do, and returns what they see and what klarm says of it."""

    def __init__(self, server: Server, config: Path) -> None:
        self._server = server
        self._config = config
        self._runner = CliRunner()
        self._environment = {"KLARM_CONFIG": str(config), "COLUMNS": "200"}

    def incidents(self, place: Path) -> tuple[object, str]:
        done = self._runner.invoke(
            command, ["incidents", str(place / "run")], env=self._environment
        )
        return (done.exit_code, done.stdout), done.stderr

    def deliver(self, place: Path) -> tuple[object, str]:
        self._server.messages.clear()
        done = self._runner.invoke(command, ["deliver", str(place / "run")], env=self._environment)
        sent = [
            [m[name] for name in ("id", "event", "step", "title", "curve")] for m in self._got()
        ]
        return sorted(map(json.dumps, sent)), done.output

    def restart(self, place: Path) -> tuple[object, str]:
        said: list[str] = []
        speak = Notices._speak
        Notices._speak = lambda _, level, message: said.append(message)  # type: ignore[method-assign]
        try:
            monitor = klarm.init(
                "run", self._config, dir=str(place), console=False, deliver="elsewhere", **SETTINGS
            )
            monitor.log({"kl": 0.02, "reward": 0.5}, 59)
            known = [(i.signal, i.state, i.opened, i.id, i.severity) for i in monitor.incidents]
            klarm.finish()
            api._replace_current(None)
        finally:
            Notices._speak = speak  # type: ignore[method-assign]
        fold = Fold(place / "run" / "journal.jsonl")
        events = [(e.id, e.event, e.step, e.peak) for e in fold.update()]
        return (known, events), "\n".join(said)

    def _got(self) -> list[dict[str, Any]]:
        return list(self._server.messages)


def flip_bytes(count: int, seed: int = 0) -> Outcome:
    """Flip a byte so many times, each in a fresh copy of a run; return what came of it."""
    chance = random.Random(seed)
    outcome = Outcome()
    server = Server()
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        config = place / "klarm.yaml"
        config.write_text(f"channels: {{ops: {{type: webhook, url: '{server.url}/hook'}}}}\n")
        try:
            subprocess.run(
                [sys.executable, "-c", MAKE_RUNS, str(config), name],
                env={**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])},
                check=True,
                capture_output=True,
            )
            reader = _Reader(server, config)
            clean = {base: _looked_at(reader, place, base) for base in ("sent", "pending")}
            for base, views in clean.items():
                if _looked_at(reader, place, base) != views:
                    raise RuntimeError(f"two looks at the same run differ: {views}")
            for _ in range(count):
                base = chance.choice(("sent", "pending"))
                files = ["journal.jsonl"] + ["deliveries.jsonl"] * 2 * (base == "sent")
                file = chance.choice(files)
                _flip(
                    outcome, reader, place, base=base, file=file, chance=chance, clean=clean[base]
                )
        finally:
            server.close()
    return outcome


Views = dict[str, tuple[object, str]]


def _looked_at(reader: _Reader, place: Path, base: str, damage: Any = None) -> Views:
    """Return what each reader makes of a copy of its own."""
    views: Views = {}
    for name in ("incidents", "deliver", "restart"):
        copy = place / "copy"
        shutil.copytree(place / base, copy)
        if damage is not None:
            damage(copy / "run")
        views[name] = getattr(reader, name)(copy)
        shutil.rmtree(copy)
    return views


def _flip(
    outcome: Outcome,
    reader: _Reader,
    place: Path,
    *,
    base: str,
    file: str,
    chance: random.Random,
    clean: Views,
) -> None:
    """Flip one byte of a file and look."""
    content = (place / base / "run" / file).read_bytes()
    offset, flipped = chance.randrange(len(content)), chance.randrange(1, 256)
    if chance.random() < 0.1:  # line ends are few, and matter
        offset = chance.choice([i for i, byte in enumerate(content) if byte == ord("\n")])

    def damage(run: Path) -> None:
        broken = bytearray(content)
        broken[offset] ^= flipped
        (run / file).write_bytes(broken)
        os.utime(run / file, (0, 0))  # nobody is writing to it

    outcome.flips[file] += 1
    views = _looked_at(reader, place, base, damage)
    differs = False
    for name, (seen, said) in views.items():
        if seen != clean[name][0]:
            differs = True
            if not any(report in said for report in REPORTS):
                outcome.silent.append((f"{base}/{file}", offset, name))
    outcome.differing[file] += differs
