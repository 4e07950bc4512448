"""Incidents of missing and stuck metrics: their names, and since when."""

from __future__ import annotations

import pytest

from klarm.detectors.metric_lost import MetricLostDetector
from klarm.journal.file import MemoryJournal
from klarm.monitor.monitor import Monitor
from klarm.types import Event
from klarm.wording import event_text, title


def noise(step: int) -> float:
    return 1.0 + (step * 7919 % 1000) / 1e4


def opened(values: dict[str, float | None], first: int = 100, every: int = 1) -> Event:
    """Return the incident of a run in which metrics are lost or stuck at a value from a row on."""
    journal = MemoryJournal()
    monitor = Monitor("a", [MetricLostDetector()], journal)
    for row in range(first + 60):
        logged = {"kl": noise(row), "entropy": noise(row + 1), "reward": noise(row + 2)}
        if row >= first:
            logged |= values  # type: ignore[arg-type]
        known = {name: value for name, value in logged.items() if value is not None}
        monitor.log({"loss": noise(row + 3), **known}, every * row)
    return next(record for record in journal.records if isinstance(record, Event))


@pytest.mark.parametrize("every", [1, 10])
def test_a_stuck_metric_is_dated_from_the_first_row_with_its_value(every: int) -> None:
    """Not from the alert, which waits for fifty such rows."""
    event = opened({"kl": 1.05}, every=every)
    assert (event.step, event.started) == (149 * every, 100 * every)
    assert (
        title(event)
        == f"stuck kl warning, began at step {100 * every} (opened at step {event.step})"
    )
    text = event_text(event)
    assert f"kl has been stuck at 1.05 for 50 rows.\n  Since step {100 * every}. " in text
    assert "on stuck kl opened" in text


def test_a_missing_metric_is_dated_from_the_first_row_without_it() -> None:
    """The name of the incident says what is missing."""
    event = opened({"kl": None})
    assert (event.step, event.started) == (149, 100)
    assert title(event) == "missing kl warning, began at step 100 (opened at step 149)"


def test_several_lost_metrics_are_named_together() -> None:
    """They are one incident."""
    event = opened({"kl": None, "entropy": None, "reward": 0.5})
    assert event.subject == "missing entropy, kl, stuck reward"


def test_what_was_lost_before_the_rows_that_are_kept_is_dated_from_the_first_of_them() -> None:
    """The tracker keeps 300 rows."""
    journal = MemoryJournal()
    monitor = Monitor("a", [MetricLostDetector(missing_steps=400)], journal)
    for step in range(600):
        monitor.log({"loss": noise(step), "kl": noise(min(step, 100))}, step)
    (event,) = (record for record in journal.records if isinstance(record, Event))
    assert (event.step, event.started) == (499, 200)
