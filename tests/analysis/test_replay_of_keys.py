"""A journal is replayed as it was watched, whatever framework logged it under whatever keys."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import klarm
from cases import over
from klarm.analysis.replay import replay
from klarm.config.layers import load
from klarm.metrics.catalogue import METRICS
from klarm.metrics.frameworks import FRAMEWORKS
from klarm.sources import read_log

KEYS = [key.replace("*", "module") for metric in METRICS.values() for key in metric.keys]
KEYS += [*METRICS, *(key for table in FRAMEWORKS.values() for key in table)]


@over("seed", range(6))
def test_live_and_replay_agree_on_any_keys(seed: int) -> None:
    """Signs are turned once and the user's word holds in both, through a change of framework."""
    shutil.rmtree("klarm_runs", ignore_errors=True)
    rng = random.Random(seed)
    keys = rng.sample(sorted(set(KEYS)), 8)
    said = dict(zip(rng.sample(list(METRICS), 2), keys, strict=False)) if seed % 2 else {}
    live = []
    for process in range(2):
        klarm.init("a", console=False, framework=rng.choice([*FRAMEWORKS, ""]), metrics=said)
        for step in range(100 * process, 100 * process + 100):
            row = {key: rng.lognormvariate(-2, 1.5) for key in keys if rng.random() < 0.9}
            live += klarm.log(row, step)
        klarm.finish()
    found = replay(read_log(Path("klarm_runs/a"), print), lambda recorded: load(recorded=recorded))
    assert repr(found.alerts) == repr(live)
