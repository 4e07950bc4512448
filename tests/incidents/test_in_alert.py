"""Since when metrics have been in alert, whether or not their alerts count."""

from __future__ import annotations

import math
import random

import pytest

from cases import over
from klarm.detectors import (
    KLBudgetDetector,
    KLExplosionDetector,
    RewardCollapseDetector,
    RewardHackingDetector,
)
from klarm.incidents.in_alert import InAlert
from klarm.monitor.monitor import Monitor
from klarm.types import Command, Event
from klarm.wording import event_text

KL = ("kl", "higher")


def test_alerts_for_a_long_time_are_a_level_of_their_own() -> None:
    """After 50 rows."""
    in_alert = InAlert()
    for step in range(100, 150):
        in_alert.add(KL, "kl_explosion", step)
        in_alert.end_row({"kl_explosion"})
    assert in_alert.since([KL]) == 100
    in_alert.add(KL, "kl_explosion", 150)
    in_alert.end_row({"kl_explosion"})
    assert in_alert.since([KL]) is None


def test_rows_of_another_metric_end_nothing() -> None:
    """The metrics of a signal may be logged in turns."""
    in_alert = InAlert()
    in_alert.add(KL, "kl_explosion", 7)
    in_alert.end_row({"kl_explosion"})
    in_alert.end_row({"trust_region"})
    assert in_alert.since([KL]) == 7
    assert in_alert.since([("kl_old", "higher")]) is None


@over("seed", range(3))
@over("confirm_steps", [5, 15])
def test_since_when_does_not_depend_on_whether_a_reward_is_logged(
    seed: int, confirm_steps: int
) -> None:
    """The reward decides which alerts count, and so when an incident opens, not when it began."""
    started, opened = [], []
    for with_reward in (False, True):
        rng, events = random.Random(seed), list[Event]()
        rule = KLExplosionDetector(confirm_steps=confirm_steps)
        monitor = Monitor("a", [rule, KLBudgetDetector(), RewardCollapseDetector()])
        monitor.on_event.append(events.append)
        for step in range(220):
            kl = 0.02 * math.exp(max(0, step - 150) / 10) * rng.lognormvariate(0, 0.05)
            reward = rng.gauss(0.3 + 0.02 * max(0, min(step, 165) - 150), 0.02)
            reward -= 0.1 * max(0, step - 165)
            monitor.log({"kl": kl, "reward": reward} if with_reward else {"kl": kl}, step)
        (event,) = [event for event in events if event.event == "opened" and event.signal == "kl"]
        started.append(event.started)
        opened.append(event.step)
    assert started[0] == started[1]
    assert opened[0] < opened[1]


@pytest.mark.parametrize("seed", range(3))
def test_rows_in_alert_count_from_the_step_that_is_named(seed: int) -> None:
    """The first alerts did not count, because the reward rose, but the metric was in alert."""
    rng, events = random.Random(seed), list[Event]()
    rules = [KLExplosionDetector(confirm_steps=5), KLBudgetDetector(), RewardCollapseDetector()]
    monitor = Monitor("a", rules)
    monitor.on_event.append(events.append)
    alerts = []
    for step in range(220):
        kl = 0.02 * math.exp(max(0, step - 150) / 10) * rng.lognormvariate(0, 0.05)
        reward = rng.gauss(0.3 + 0.02 * max(0, min(step, 165) - 150), 0.02)
        reward -= 0.1 * max(0, step - 165)
        alerts += monitor.log({"kl": kl, "reward": reward}, step)
    (event,) = [event for event in events if event.event == "opened" and event.signal == "kl"]
    in_alert = {alert.step for alert in alerts if alert.detector == "kl_explosion"}
    assert event.reason == "confirmed"
    assert in_alert.issuperset(range(event.started, event.step + 1))
    assert event.rows == event.step - event.started + 1 > 5


def test_an_incident_after_a_closed_one_does_not_begin_with_it() -> None:
    """KL stays in alert when somebody closes its incident, and is NaN in the next row."""
    monitor = Monitor("a", [KLExplosionDetector(confirm_steps=5, excusable=False)])
    rng, events = random.Random(0), list[Event]()
    monitor.on_event.append(events.append)
    for step in range(150):
        monitor.log({"kl": rng.gauss(0.02, 0.001)}, step)
    for step in range(150, 156):
        monitor.log({"kl": 0.02 * 2.0 ** (step - 148)}, step)
    (opened,) = events
    monitor.apply(Command(command="close", key="a", time=0.0, by="ada", incident=opened.id))
    monitor.log({"kl": math.nan}, 156)
    assert [(e.event, e.started) for e in events if e.event == "opened"] == [
        ("opened", 150),
        ("opened", 156),
    ]


def test_alerts_that_were_ignored_for_long_are_mentioned() -> None:
    """Rewards spread from step 150 on, and count once KL is far: people saw the first alert."""
    events = list[Event]()
    monitor = Monitor("a", [RewardHackingDetector(), KLBudgetDetector()])
    monitor.on_event.append(events.append)
    for step in range(300):
        kl = 0.02 if step < 260 else 0.9
        reward_std = (0.3 if step < 150 else 1.2) + 0.01 * (step % 3)
        monitor.log({"kl": kl, "reward_std": reward_std}, step)
    opened = next(event for event in events if event.signal == "reward")
    assert opened.event == "opened"
    assert opened.started >= 260
    assert opened.ignored_since == 150
    assert f"Since step {opened.started}; alerts from step 150 on were ignored." in event_text(
        opened
    )
