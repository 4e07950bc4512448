"""Evidence: what one signal cannot decide, others do. An alert that is excused opens nothing."""

from __future__ import annotations

import math
import random

import pytest

from cases import over
from klarm.config.layers import load
from klarm.incidents.evidence import Evidence
from klarm.incidents.recent_rows import RecentRows
from klarm.monitor.monitor import Monitor

Row = dict[str, float]


def opened(rows: list[Row]) -> list[tuple[str, str]]:
    """Return signal and severity of every incident of a run at the default configuration."""
    config = load(environment={})
    monitor = Monitor("a", config.detectors(), rules=config.incident_rules())
    for step, row in enumerate(rows):
        monitor.log(row, step)
    return [(i.signal, i.severity) for i in monitor.incidents if i.opened is not None]


def learning(count: int, seed: int = 0) -> list[Row]:
    """A run whose reward climbs from 0.1 to 0.9 over 200 rows and stays there."""
    rng = random.Random(seed)
    return [
        {
            "kl": 0.05 * (1 - math.exp(-step / 60)) * rng.lognormvariate(0, 0.15) + 1e-4,
            "reward": min(0.1 + step / 250, 0.9) + rng.gauss(0, 0.03),
            "reward_std": rng.uniform(0.18, 0.22),
            "entropy": 0.8 * rng.lognormvariate(0, 0.05),
        }
        for step in range(count)
    ]


def test_the_unchanged_run_has_no_incident() -> None:
    """What follows is due to what is changed in it."""
    assert opened(learning(500)) == []


def test_low_entropy_of_a_solved_task_opens_no_incident() -> None:
    """The reward is at its best while entropy goes to 0; without a reward nobody can know."""
    rows = learning(500)
    for step, row in enumerate(rows):
        row["entropy"] *= math.exp(-max(0, step - 250) / 15)
    assert opened(rows) == []
    for row in rows:
        del row["reward"]
    assert ("entropy", "critical") in opened(rows)


def test_low_entropy_with_a_lost_reward_opens_an_incident() -> None:
    """The same fall, and the reward falls with it."""
    rows = learning(500)
    for step, row in enumerate(rows):
        fall = math.exp(-max(0, step - 250) / 15)
        row["entropy"] *= fall
        row["reward"] *= 0.3 + 0.7 * fall
    assert ("entropy", "critical") in opened(rows)


def test_low_entropy_far_from_the_reference_opens_an_incident() -> None:
    """The reward is at its best because it is being gamed."""
    rows = learning(500)
    for step, row in enumerate(rows):
        row["entropy"] *= math.exp(-max(0, step - 250) / 15)
        row["kl"] += 0.7 * (1 - math.exp(-max(0, step - 250) / 40))
    assert "entropy" in {signal for signal, _ in opened(rows)}


def test_rewards_that_spread_as_learning_takes_off_open_no_incident() -> None:
    """Three times the spread of the first hundred rows; with KL far away it is another matter."""
    rows = learning(500)
    for step, row in enumerate(rows):
        row["reward_std"] *= 3.0 if step > 150 else 1.0
    assert opened(rows) == []
    for step, row in enumerate(rows):
        row["kl"] += 0.7 if step > 150 else 0.0
    assert "reward" in {signal for signal, _ in opened(rows)}


def test_a_level_shift_that_the_reward_pays_for_never_opens_an_incident() -> None:
    """KL jumps eightfold as the reward does; the slow test speaks of it hundreds of rows later."""
    rows = learning(900)
    for step, row in enumerate(rows):
        late = step >= 300
        row["reward"] = (1.9 if late else 0.3) + 0.1 * (row["reward"] - 0.5)
        row["kl"] *= 5.0 if late else 1.0
    assert opened(rows) == []
    for row in rows:  # nothing pays for it
        row["reward"] = 0.3
    assert "kl" in {signal for signal, _ in opened(rows)}


@over("seed", range(4))
@over("reward", ["stopped rising", "falls", "rises"])
def test_only_a_reward_that_still_rises_pays_for_a_kl_that_explodes(reward: str, seed: int) -> None:
    """That it rose at some time in the run is no payment for what happens now."""
    noise = random.Random(seed)
    monitor = Monitor("a", load(None, {}).detectors())
    found: list[tuple[int, str]] = []
    monitor.on_event.append(lambda event: found.append((event.step, event.event)))
    first = 0
    for step in range(230):
        kl = 0.02 * noise.lognormvariate(0.0, 0.25) * 1.15 ** max(0, step - 200)
        level = 0.2 + step / 300 if reward == "rises" else 0.2 + 0.5 * min(1.0, step / 150)
        if reward == "falls":
            level -= 0.02 * max(0, step - 203)
        alerts = monitor.log({"kl": kl, "reward": level + noise.gauss(0.0, 0.03)}, step)
        if step >= 200 and any(alert.detector == "kl_runaway" for alert in alerts):
            first = first or step
    (opened_at, _), *_ = found
    assert (opened_at <= first + 3) == (reward != "rises")


def test_a_broken_update_is_not_paid_for() -> None:
    """The reward rises, and the learning rate was raised: the second explains the KL."""
    noise = random.Random(0)
    monitor = Monitor("a", load(None, {}).detectors())
    found: list[tuple[str, int]] = []
    monitor.on_event.append(lambda event: found.append((event.signal, event.step)))
    for step in range(230):
        monitor.log(
            {
                "kl": 0.02 * noise.lognormvariate(0.0, 0.25) * 1.15 ** max(0, step - 200),
                "reward": 0.2 + step / 300 + noise.gauss(0.0, 0.03),
                "learning_rate": 1e-6 if step < 195 else 1e-4,
            },
            step,
        )
    first = dict(reversed(found))
    assert first["gradient"] < first["kl"] < 212


@pytest.mark.parametrize(
    ("scale", "cost", "notified"), [(1.0, 0.0, False), (1.0, 0.5, True), (30.0, 0.0, True)]
)
def test_a_tiny_kl_counts_only_if_the_reward_suffers(
    scale: float, cost: float, notified: bool
) -> None:
    """Small batches: most KLs are tiny and some are a hundred times that; then all are ×20."""
    rng = random.Random(0)
    rows = []
    for step in range(250):
        late = max(0, step - 150)
        kl = scale * 0.001 * 20 ** min(1.0, late / 50) * rng.lognormvariate(0, 1.6)
        rows.append({"kl": kl, "reward": 0.75 + rng.gauss(0, 0.09) - (cost if late else 0.0)})
    assert ("kl" in {signal for signal, _ in opened(rows)}) == notified


@over("seed", range(5))
def test_a_reward_that_only_scatters_has_lost_nothing(seed: int) -> None:
    """Its smoothed level goes up and down with the noise, and is often far below its best."""
    rng = random.Random(seed)
    rows = [{"clip_fraction": 0.28, "reward": 0.75 + rng.gauss(0, 0.1)} for _ in range(300)]
    assert opened(rows) == []


@pytest.mark.parametrize("cost", ["reward", "kl_old"])
def test_clipping_counts_only_if_something_else_suffers(cost: str) -> None:
    """A clipped share of a quarter is usual in control tasks."""
    rows = learning(500)
    for step, row in enumerate(rows):
        row["clip_fraction"] = 0.28 if step > 300 else 0.05
    assert opened(rows) == []
    for step, row in enumerate(rows):
        if cost == "reward":
            row["reward"] *= math.exp(-max(0, step - 300) / 150)
        else:
            row["kl_old"] = 0.2 if step > 310 else 0.01
    assert {"gradient", "kl"} & {signal for signal, _ in opened(rows)}


def test_a_value_that_is_not_finite_is_never_excused() -> None:
    """Whatever the reward says."""
    rows = learning(300)
    rows[250]["entropy"] = math.nan
    rows[260]["kl"] = math.inf
    assert opened(rows) == [("entropy", "critical"), ("kl", "critical")]


def test_the_range_of_the_reward_is_measured_in_units_of_noise() -> None:
    """One that climbs has learnt; a constant or a few values have not."""
    rng = random.Random(1)
    climbing = [0.5 + step / 200 + rng.gauss(0.0, 0.1) for step in range(200)]
    assert not evidence_of([0.5] * 200)._has_learnt()
    assert evidence_of(climbing)._has_learnt()
    assert not evidence_of(climbing[:4])._has_learnt()


def evidence_of(rewards: list[float]) -> Evidence:
    recent = RecentRows()
    evidence = Evidence(recent, 1.0, lambda _: False)
    for step, reward in enumerate(rewards):
        recent.add(step, {"reward": reward})
        evidence.update(step, {"reward": reward})
    return evidence
