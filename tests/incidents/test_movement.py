"""What a message says about other metrics that moved."""

from __future__ import annotations

from collections.abc import Callable

from klarm.detectors import CATALOGUE
from klarm.journal.file import MemoryJournal
from klarm.monitor.monitor import Monitor
from klarm.types import Event

Row = dict[str, float]


def alarms(value: Callable[[int], Row], detector: str) -> list[Event]:
    """Return what people read about a run of 200 rows, of the incidents of one detector."""
    journal = MemoryJournal()
    watched = Monitor("a", [kind() for kind in CATALOGUE], journal)
    for step in range(200):
        watched.log(value(step), step=step)
    found = [record for record in journal.records if isinstance(record, Event)]
    return [e for e in found if e.event in ("opened", "escalated") and detector in e.detectors]


def wobble(step: int) -> float:
    """Return some noise around 1, the same in every run."""
    return 1.0 + 0.05 * ((7 * step) % 11 - 5) / 5


def test_numbers_of_a_metric_stand_in_the_message_or_under_also_moved_but_not_in_both() -> None:
    """Two numbers about one metric, measured over different rows, look like a contradiction."""

    def row(step: int) -> Row:
        late = max(0, step - 100)
        return {
            "reward": 0.6 * wobble(step) - 0.004 * late,
            "kl": 0.02 * wobble(step) + 0.003 * late,
            "length": 200.0 * wobble(step) * (1 + late / 25),
        }

    event = alarms(row, "reward_drift")[0]
    assert "while KL rose from" in event.message
    assert "length ×" in event.moved  # others have their numbers here
    assert "kl (see above) from step 1" in event.moved  # and this one only its date
    assert "kl ×" not in event.moved


def test_damage_of_a_learning_rate_that_jumped_is_given_once() -> None:
    """The message says how far entropy has fallen; the list only adds when it began."""

    def row(step: int) -> Row:
        late = step >= 100
        return {
            "learning_rate": 1e-3 if late else 1e-5,
            "entropy": wobble(step) * (0.2 if late else 1.0),
            "reward": 0.5 * wobble(step),
        }

    *_, event = alarms(row, "learning_rate_jump")
    assert "entropy has fallen from" in event.message
    assert "entropy (see above) from step 10" in event.moved


def test_what_moved_slowly_as_the_message_says_is_not_given_again() -> None:
    """A drift over a hundred rows may be too slow for the list."""

    def row(step: int) -> Row:
        return {
            "reward": 0.6 * wobble(step) - 0.001 * step,
            "entropy": 0.5 * wobble(step) + 0.001 * step,
            "grad_norm": wobble(step) * (8.0 if step > 90 else 1.0),
        }

    event = alarms(row, "reward_drift")[0]
    assert "while entropy rose from" in event.message
    assert "grad_norm ×" in event.moved
    assert "entropy" not in event.moved


def test_an_entropy_that_has_just_plunged_is_not_said_to_fall_as_before() -> None:
    """It was almost flat: a trend that is ten times as steep does not go on as before."""

    def row(step: int) -> Row:
        late = max(0, step - 149)
        return {
            "kl": 0.02 * wobble(step) * 1.6**late,
            "entropy": 2.5 - 0.0002 * step + 0.003 * (wobble(step) - 1) - 0.1 * late,
            "reward": 0.5 * wobble(step) + 0.004 * step,
        }

    first = alarms(row, "kl_runaway")[0]
    assert "entropy keeps falling" not in first.moved
    assert "entropy down" in first.moved or "entropy ×" in first.moved
    assert "reward keeps rising as before" in first.moved
