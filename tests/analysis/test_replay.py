"""Live, replay and `scores` are one: the same alerts from the same values."""

from __future__ import annotations

import math
import random
import shutil
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

import klarm
from cases import over
from klarm.analysis.replay import replay
from klarm.cli.demo import RECORDINGS, read_recording
from klarm.config.layers import Config, load
from klarm.detectors import KLExplosionDetector
from klarm.sources import read_log
from klarm.types import Alert

pytestmark = pytest.mark.usefixtures("one_detector")

modes = over("mode", ["rolling", "frozen"])


def quiet(message: str) -> None:
    raise AssertionError(message)


def replayed(run: str) -> list[Alert]:
    """Replay a run's journal with the settings it was recorded with."""
    return replay(read_log(Path("klarm_runs") / run, quiet), as_recorded).alerts


def as_recorded(recorded: Mapping[str, object] | None) -> Config:
    return load(recorded=recorded or {})


def recorded(run: str) -> list[str]:
    from klarm.journal.file import read_journal

    journal = Path("klarm_runs") / run / "journal.jsonl"
    return [repr(record) for record in read_journal(journal) if isinstance(record, Alert)]


@modes
@over("recording", RECORDINGS)
def test_they_agree_on_the_recordings(recording: str, mode: str) -> None:
    """Real GRPO runs: healthy, exploding, drifting."""
    shutil.rmtree("klarm_runs", ignore_errors=True)
    rows = read_recording(recording)
    klarm.init("a", console=False, kl_explosion={"baseline_mode": mode})
    live = [alert for row in rows for alert in klarm.log(row, step=row["step"])]
    klarm.finish()
    assert live == replayed("a")
    kl = np.array([row["kl"] for row in rows])
    scores = KLExplosionDetector(baseline_mode=mode).scores(kl)
    on_kl = [alert for alert in live if alert.detector == "kl_explosion"]
    assert [alert.step - 1 for alert in on_kl] == np.flatnonzero(scores > 3.0).tolist()
    assert [alert.metrics["z_score"] for alert in on_kl] == scores[scores > 3.0].tolist()


@modes
@over("seed", range(4))
def test_they_agree_on_random_series(seed: int, mode: str) -> None:
    """With NaN, infinities and spikes, bit for bit."""
    shutil.rmtree("klarm_runs", ignore_errors=True)
    rng = np.random.default_rng(seed)
    kl = rng.lognormal(-4, 0.8, 700)
    kl[rng.integers(0, 700, 10)] = rng.choice([np.nan, np.inf, -np.inf, 1e12, -1e12, 0.0], 10)
    klarm.init("a", console=False, kl_explosion={"baseline_mode": mode, "rolling_window": 60})
    live = [alert for value in kl for alert in klarm.log({"kl": value})]
    klarm.finish()
    assert repr(live) == repr(replayed("a"))
    scores = KLExplosionDetector(baseline_mode=mode, rolling_window=60).scores(kl)
    assert [alert.step for alert in live] == np.flatnonzero(scores > 3.0).tolist()


@over("seed", range(6))
def test_they_agree_through_restarts_and_rollbacks(seed: int) -> None:
    """A journal tells where training went back, and a replay goes back there too."""
    shutil.rmtree("klarm_runs", ignore_errors=True)
    rng = random.Random(seed)
    live: list[Alert] = []
    step = 0
    for _ in range(rng.randint(2, 4)):  # processes
        sigma = rng.choice([3.0, 5.0])
        klarm.init("a", console=False, kl_explosion={"sigma_multiplier": sigma})
        for _ in range(rng.randint(0, 4)):  # stretches between rollbacks
            for _ in range(rng.randint(1, 150)):
                value = math.nan if rng.random() < 0.01 else rng.lognormvariate(-4, 1.0)
                live += klarm.log({"kl": value, "loss": 1.0}, step)
                if rng.random() < 0.05:
                    live += klarm.log({"kl": value, "eval/loss": 2.0}, step)
                step += rng.choice([1, 1, 1, 5])
            step = max(0, step - rng.randint(0, 100))
        klarm.finish()
    assert repr(live) == repr(replayed("a"))
    assert [repr(alert) for alert in live if not math.isnan(alert.metrics["kl"])] == [
        line for line in recorded("a") if "NaN" not in line
    ]


def test_a_log_whose_counter_starts_again_is_two_runs() -> None:
    """The second starts from nothing, as its training did."""
    rows = [f"{step},{0.1 + step % 3 / 100}\n" for step in range(60)]
    rows += [f"{step},{0.5 + step % 3 / 100}\n" for step in range(60)]
    Path("log.csv").write_text("step,kl\n" + "".join(rows))
    found = replay(read_log(Path("log.csv"), quiet), as_recorded)
    assert (found.steps, found.rolled_back) == (60, 60)
    assert found.alerts == []


def test_a_replay_says_what_it_could_not_see() -> None:
    """A log without KL is not a healthy run."""
    Path("log.csv").write_text("step,epoch\n1,0.5\n2,0.5\n")
    found = replay(read_log(Path("log.csv"), quiet), as_recorded)
    assert "no kl is logged" in found.idle["kl_explosion"]
    assert found.watched == []
    assert found.names == ["epoch"]
