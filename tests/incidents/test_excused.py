"""Excused alerts: they open nothing, but what opens right after them began there."""

from __future__ import annotations

import math
import random

from klarm.config import load
from klarm.incidents.excused import ExcusedAlerts
from klarm.monitor.monitor import Monitor
from klarm.wording import why

KL = ("kl", "higher")


def test_alerts_long_ago_are_not_the_beginning_of_an_incident() -> None:
    """Neither after quiet rows, nor after a long time in which they were excused."""
    excused = ExcusedAlerts()
    excused.add(KL, 10, "paid_for")
    for _ in range(6):
        excused.end_row()
    assert excused.since([KL]) is None
    assert not excused
    for step in range(100, 160):
        excused.add(KL, step, "paid_for")
        excused.end_row()
    assert excused.since([KL]) is None


def test_a_checkpoint_saved_during_excused_alerts_is_not_good() -> None:
    """KL explodes from 150 on while the reward still rises; it falls from 170 on."""
    config, rng = load(environment={}), random.Random(1)
    monitor = Monitor("a", config.detectors(), rules=config.incident_rules())
    events = []
    monitor.on_event.append(events.append)
    alerted = []
    for step in range(200):
        kl = 0.02 + 0.0001 * step if step < 150 else 0.035 * math.exp((step - 150) / 10)
        reward = 0.3 + 0.001 * step if step < 170 else max(0.0, 0.45 - 0.02 * (step - 170))
        row = {"kl": kl + rng.gauss(0, 0.003), "reward": reward + rng.gauss(0, 0.02)}
        if monitor.log(row, step) and step >= 150:
            alerted.append(step)
        if step % 10 == 0:
            monitor.checkpoint(step, f"elsewhere/checkpoint-{step}")
    opened = next(event for event in events if event.signal == "kl")
    assert opened.step > alerted[0] + 10  # the reward paid for it until then
    assert opened.onset is not None
    assert opened.onset <= alerted[0]
    assert opened.checkpoint == "elsewhere/checkpoint-150"
    assert why(opened).endswith(
        "The incident did not open earlier because the reward was holding up and KL was far below "
        "its budget."
    )
