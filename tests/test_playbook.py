"""What moved, in which order, and what it looks like."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from klarm.cli.demo import read_recording
from klarm.detectors import CATALOGUE
from klarm.journal import MemoryJournal
from klarm.monitor import Monitor
from klarm.movements import Movement, RecentRows, summary
from klarm.playbook import PATTERNS, diagnose
from klarm.types import Event

DOCS = Path(__file__).parents[1] / "docs"


def rows(**curves: Callable[[int], float]) -> RecentRows:
    """Return a hundred steps, 600 to 699, of these curves."""
    recent = RecentRows()
    for step in range(600, 700):
        recent.add(step, {name: curve(step) for name, curve in curves.items()})
    return recent


def wobble(step: int) -> float:
    return 1.0 + 0.02 * ((step * 7) % 5 - 2)


def rising_from(start: int, factor: float) -> Callable[[int], float]:
    return lambda step: wobble(step) * (factor if step >= start else 1.0)


def test_what_moved_is_told_in_its_order_and_what_did_not_as_well() -> None:
    """With when it left what was normal, and how far it is now."""
    recent = rows(kl=rising_from(678, 8.0), grad_norm=rising_from(672, 4.0), reward=wobble)
    assert summary(recent.movements()) == "grad_norm x4.1 at 672, then kl x8.2 at 678; reward flat"


def test_a_spike_that_has_passed_is_no_movement() -> None:
    """Nor is a metric with too few values anything at all."""
    recent = rows(kl=lambda step: 50.0 if step == 680 else wobble(step))
    recent.add(700, {"kl": 1.0, "loss": 3.0})
    assert [(m.metric, m.direction) for m in recent.movements()] == [("kl", "flat")]


def test_a_value_that_is_not_finite_is_broken_from_its_first_step() -> None:
    """Whatever comes after it."""
    recent = rows(loss=lambda step: math.nan if step in (650, 660) else wobble(step))
    assert summary(recent.movements()) == "loss not finite at 650"


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: pattern.name)
def test_every_pattern_is_found_and_documented(pattern: object) -> None:
    """No pattern is hidden by one before it, and its page says the same."""
    from klarm.playbook import Pattern

    assert isinstance(pattern, Pattern)
    order = [*pattern.order, *(metric for metric in pattern.moved if metric not in pattern.order)]
    movements = [
        Movement(metric, pattern.moved[metric][0], 600 + 10 * order.index(metric), 2.0)
        for metric in pattern.moved
    ]
    assert diagnose(movements) == pattern
    page = (DOCS / "playbook.md").read_text()
    assert f"| {pattern.name} |" in page
    assert f"| {pattern.cause} | {pattern.remedy} |" in page


def test_order_matters_where_a_pattern_says_so() -> None:
    """Gradients that rise after KL are no cause of it."""
    first = [Movement("grad_norm", "up", 612, 4.0), Movement("kl", "up", 618, 8.0)]
    after = [Movement("grad_norm", "up", 620, 4.0), Movement("kl", "up", 618, 8.0)]
    found, missed = diagnose(first), diagnose(after)
    assert found is not None
    assert found.name == "gradients first"
    assert missed is None
    assert diagnose([]) is None


def test_the_recorded_explosion_is_explained_by_its_learning_rate() -> None:
    """Which was multiplied by a hundred after step 150."""
    journal = MemoryJournal()
    watched = Monitor("a", [kind() for kind in CATALOGUE], journal)
    for row in read_recording("exploding"):
        watched.log(row, step=row["step"])
    opened = [
        record
        for record in journal.records
        if isinstance(record, Event) and record.event == "opened" and record.signal == "kl"
    ]
    assert opened[0].pattern == "learning rate raised"
    assert opened[0].moved.startswith("learning_rate x1e+02 at 152, then ")
