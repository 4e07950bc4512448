"""All messages of one long explosion of KL, held against its rows.

KL grows slowly and explodes at step 180. It outgrows the rows that a diagnosis looks at, and even
those that are kept. Covers dates.py and the patterns that an incident keeps.
"""

from __future__ import annotations

import math
import random
import re
from functools import cache
from statistics import median

import pytest
from msgspec.structs import replace

from cases import over
from klarm.detectors import CATALOGUE
from klarm.incidents.checkpoints import unsafe_since
from klarm.incidents.event_facts import early_onset
from klarm.journal.file import MemoryJournal
from klarm.monitor.monitor import Monitor
from klarm.types import Event
from klarm.wording import advice, event_text
from moved_line import dates_of

BEGAN = 180
Row = dict[str, float]
SEEDS = range(4)


def exploding(seed: int, steps: int = 300) -> list[Row]:
    """Return a run whose KL explodes; gradients grow with it, then loss, and the reward falls."""
    rng, rows = random.Random(seed), []
    for step in range(steps):
        growth = min(1.15 ** max(0, step - BEGAN + 1), 1e9)
        kl = (0.01 + 0.00008 * step) * rng.lognormvariate(0.0, 0.12) * growth
        fallen = min(0.5, 0.004 * max(0, step - BEGAN))
        rows.append(
            {
                "kl": kl,
                "reward": 0.7 - 0.4 * math.exp(-step / 150) + rng.gauss(0.0, 0.03) - fallen,
                "entropy": 1.2 - 0.0008 * step + rng.gauss(0.0, 0.03),
                "loss": 0.05 + rng.gauss(0.0, 0.01) + (0.04 * kl if growth > 1.0 else 0.0),
                "grad_norm": 0.8 * rng.lognormvariate(0.0, 0.15) * min(growth, 30.0) ** 0.5,
                "learning_rate": 1e-6,
            }
        )
    return rows


@cache
def told(seed: int, steps: int = 300) -> list[Event]:
    """Return the events of such a run that open or escalate incidents."""
    rows = exploding(seed, steps)
    journal = MemoryJournal()
    monitor = Monitor("a", [kind() for kind in CATALOGUE], journal)
    for step, row in enumerate(rows):
        monitor.log(row, step=step)
    events = [record for record in journal.records if isinstance(record, Event)]
    return [event for event in events if event.event in ("opened", "escalated")]


@over("seed", SEEDS)
def test_a_loss_that_follows_kl_is_never_its_cause(seed: int) -> None:
    """Once the explosion filled the rows looked at, KL was dated after the loss."""
    events = told(seed)
    assert events[-1].step > 270
    assert "loss bursts first" not in {event.pattern for event in events}


@over("seed", SEEDS)
def test_a_metric_keeps_the_date_of_its_open_incident(seed: int) -> None:
    """However long ago it began, and although it looks flat by now."""
    events = told(seed, 420)
    for metric in ("kl", "grad_norm"):
        own = next(event for event in events if event.subject == metric)
        later = [e for e in events if e.step > own.step and e.incident != own.incident]
        assert later
        assert dates_of(metric, later) == [own.onset] * len(later)


@over("seed", SEEDS)
def test_a_factor_compares_with_the_level_before_the_date_it_stands_beside(seed: int) -> None:
    """Which is remembered when its rows are no longer kept."""
    rows = exploding(seed, 420)
    kl = next(event for event in told(seed, 420) if event.subject == "kl")
    assert kl.onset is not None
    level = median(row["kl"] for row in rows[kl.onset - 10 : kl.onset])
    found = [
        (float(match[1]), median(row["kl"] for row in rows[event.step - 2 : event.step + 1]))
        for event in told(seed, 420)
        if (match := re.search(r"kl ×([\d.e]+) since", event.moved))
    ]
    assert found
    for said, reached in found:
        assert said == pytest.approx(reached / level, rel=0.06)


@over("seed", SEEDS)
def test_a_reward_that_rose_until_the_explosion_does_not_fall_as_before(seed: int) -> None:
    """The rows that it is compared with are those of the incident."""
    assert not any("falling as before" in event.moved for event in told(seed))


@over("seed", SEEDS)
def test_the_cause_of_an_incident_does_not_go_to_and_fro(seed: int) -> None:
    """It gets more specific, and never returns to an earlier one."""
    said = [event.pattern for event in told(seed) if event.subject == "kl"]
    changes = [name for name, before in zip(said, ["", *said], strict=False) if name != before]
    assert len(changes) == len(set(changes))


@over("seed", SEEDS)
def test_a_budget_that_is_exceeded_is_not_said_to_be_half_used(seed: int) -> None:
    """Half of it is 0.5 nats."""
    rows = exploding(seed)
    events = [event for event in told(seed) if event.pattern == "KL far ahead of the reward"]
    assert events
    for event in events:
        level = median(row["kl"] for row in rows[event.step - 2 : event.step + 1])
        used = "exceeded its budget" if level > 1.0 else "used over half its budget"
        assert event.cause == f"KL has {used}, and the reward does not justify it"


@over("seed", SEEDS)
def test_a_critical_incident_on_kl_is_always_advised_to_go_back(seed: int) -> None:
    """At the latest if KL does not level off."""
    for event in told(seed):
        if event.subject == "kl" and event.severity == "critical":
            assert re.search(r"\b[Gg]o back\b", advice(event)[0]), event.step


@over("seed", range(8))
def test_an_onset_is_not_dated_before_the_explosion(seed: int) -> None:
    """Nor by a lucky row, or by an alert that did not count, from before it."""
    opened = [event for event in told(seed) if event.event == "opened"]
    for event in opened:
        assert (event.onset or event.started) >= BEGAN, event.subject


@over("seed", SEEDS)
def test_the_onset_of_the_reward_is_where_a_reader_sees_it_fall(seed: int) -> None:
    """It falls by a standard deviation in eight steps, so fifty steps are far too late."""
    opened = next(event for event in told(seed) if event.subject == "reward")
    began = early_onset(opened) or opened.started
    rows = exploding(seed)
    usual = median(row["reward"] for row in rows[150:180])
    down = [
        step
        for step in range(190, began)
        if usual - median(row["reward"] for row in rows[step - 4 : step + 1]) > 3.5 * 0.03
    ]
    assert len(down) < 12


def test_an_unconfirmed_alert_shortly_before_is_not_called_part_of_the_incident() -> None:
    """The terminal showed it, so the first alert of the incident is not the first one."""
    rng, journal = random.Random(3), MemoryJournal()
    monitor = Monitor("a", [kind() for kind in CATALOGUE], journal)
    alerts = []
    for row in range(260):
        spike = row == 200 or row >= 202
        norm = 0.8 * rng.lognormvariate(0.0, 0.1) * (2.0 if spike else 1.0)
        alerts += monitor.log({"grad_norm": norm}, step=10 * row)
    opened = next(r for r in journal.records if isinstance(r, Event) and r.event == "opened")
    assert alerts[0].step < opened.started
    said = event_text(replace(opened, onset=opened.started - 100, onset_rows=10))
    assert f"In alert since step {opened.started}; in hindsight" in said


def raised_at_200(row: int) -> Row:
    """Return a row of a run whose learning rate is raised at 200; KL explodes a row later."""
    wobble = 1.0 + 0.02 * ((row * 7) % 5 - 2)
    return {
        "kl": 0.02 * wobble * 1.5 ** min(max(0, row - 200), 20),
        "reward": 0.3 * wobble,
        "learning_rate": 1e-4 if row >= 200 else 1e-6,
    }


def test_checkpoints_count_as_unsafe_from_the_step_that_raised_the_learning_rate() -> None:
    """The update of that step was already a bad one, although its KL was still normal."""
    journal = MemoryJournal()
    monitor = Monitor("a", [kind() for kind in CATALOGUE if kind.signal == "kl"], journal)
    for step in range(230):
        monitor.log(raised_at_200(step), step)
        monitor.checkpoint(step, f"s3://bucket/{step}")
    (incident,) = monitor.critical
    assert incident.onset == 201
    assert monitor.last_good_checkpoint(incident) == (199, "s3://bucket/199")
    monitor.finish()
    events = [record for record in journal.records if isinstance(record, Event)]
    assert {unsafe_since(event) for event in events} == {200}
    assert advice(events[-1])[0].startswith("Go back to a checkpoint from before step 200,")


@pytest.mark.parametrize("quiet_rows", [3, 6])
def test_a_later_explosion_says_the_same_about_checkpoints_as_its_cause(quiet_rows: int) -> None:
    """The messages of both incidents name the step at which the learning rate was raised."""
    journal = MemoryJournal()
    monitor = Monitor("a", [kind() for kind in CATALOGUE], journal)
    for step in range(240):
        kl = raised_at_200(max(0, step - quiet_rows))["kl"]
        monitor.log({**raised_at_200(step), "kl": kl}, step)
    monitor.finish()
    events = [record for record in journal.records if isinstance(record, Event)]
    explained = [event for event in events if event.pattern == "learning rate raised"]
    assert {event.subject for event in explained} >= {"kl"}
    assert {unsafe_since(event) for event in explained} == {200}
    assert {"from before step 200" in advice(event)[0] for event in explained} == {True}
