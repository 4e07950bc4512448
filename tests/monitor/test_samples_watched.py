"""Single rewards all the way: from `log` to an incident, and again from the journal."""

from __future__ import annotations

import math
import random
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

import klarm
from klarm.analysis.replay import replay
from klarm.config.layers import load
from klarm.journal.file import read_journal
from klarm.sources import read_log
from klarm.types import Event


def one_group(rng: random.Random) -> list[float]:
    return [rng.gauss(0.5, 0.2) for _ in range(64)]


def two_groups(rng: random.Random) -> list[float]:
    """Return rewards with the mean and spread of one group: only their shape is another."""
    return [0.5 + rng.choice([-0.195, 0.195]) + rng.gauss(0.0, 0.045) for _ in range(64)]


def events(run: str) -> list[Event]:
    """Return what was recorded, without ids: those of a replay are others."""
    journal = read_journal(Path("klarm_runs") / run / "journal.jsonl")
    return [replace(record, id="") for record in journal if isinstance(record, Event)]


def replayed(run: str) -> list[Event]:
    def fail(message: str) -> None:
        raise AssertionError(message)

    rows = read_log(Path("klarm_runs") / run, fail)
    found = replay(rows, lambda recorded: load(recorded=recorded or {}))
    return [replace(event, id="") for event in found.events]


def test_a_healthy_run_opens_no_incident() -> None:
    """Over 2,000 steps a p below 0.05 comes by chance now and then, never for long."""
    rng = random.Random(4)
    watched = klarm.init("a", console=False)
    for step in range(2_000):
        klarm.log({"rewards": one_group(rng)}, step)
    klarm.finish()
    assert watched.alert_counts["warning"] > 0
    assert events("a") == []


@pytest.mark.parametrize("dress", [list, np.array])
def test_rewards_that_split_open_an_incident_at_an_exact_step(dress: type) -> None:
    """They split at step 300, which is believed four steps later; a replay says the same."""
    rng = random.Random(3)
    klarm.init("a", console=False)
    for step in range(320):
        rewards = one_group(rng) if step < 300 else two_groups(rng)
        klarm.log({"rewards": dress(rewards), "kl": 0.1 + 0.01 * rng.random()}, step)
    klarm.finish()
    opened, ended = events("a")
    assert (ended.event, ended.step) == ("ended", 319)
    assert (opened.event, opened.signal, opened.severity) == ("opened", "reward", "warning")
    assert (opened.started, opened.step, opened.detectors) == (300, 304, ["reward_hacking"])
    assert "split into groups" in opened.message
    assert "reward_dip_p ×" in opened.moved
    assert replayed("a") == [opened, ended]


def test_a_resumed_run_knows_how_its_rewards_were_spread() -> None:
    """The journal holds what the detector learns from, so a restart costs no warm-up."""
    rng = random.Random(3)
    for first, last in ((0, 200), (200, 310)):
        klarm.init("a", console=False)
        for step in range(first, last):
            rewards = one_group(rng) if step < 300 else two_groups(rng)
            klarm.log({"rewards": rewards}, step)
        klarm.finish()
    recorded = [(event.event, event.step) for event in events("a")]
    assert recorded == [("opened", 304), ("ended", 309)]
    assert replayed("a") == events("a")


def test_a_nan_among_the_rewards_is_critical_at_once() -> None:
    """As if the trainer had logged their mean itself."""
    klarm.init("a", console=False)
    alerts = klarm.log({"rewards": [0.5, math.nan, 0.7]}, 7)
    klarm.finish()
    assert {alert.severity for alert in alerts} == {"critical"}
    assert "reward is NaN" in " ".join(alert.message for alert in alerts)
    opened, _ = events("a")
    assert (opened.event, opened.signal, opened.step) == ("opened", "reward", 7)


def test_rewards_that_no_longer_differ_are_not_missed() -> None:
    """A policy that is always right has rewards without a p: no failure of logging."""
    rng = random.Random(1)
    klarm.init("a", console=False)
    for step in range(300):
        rewards = one_group(rng) if step < 100 else [rng.choice([0.9, 1.0]) for _ in range(64)]
        klarm.log({"rewards": rewards}, step)
    klarm.finish()
    assert events("a") == []
