"""Which checkpoints the page calls unsafe: the same as the monitor does."""

from __future__ import annotations

from msgspec.structs import replace

from klarm.incidents import Broken, unsafe_spans
from klarm.journal import IncidentRecord
from klarm.types import Event

OPENED = Event(
    "opened", 1, "kl", "critical", 105, 100, ["kl_budget"], 5.0, "decisive", "", "", id="a"
)


def spans(records: list[IncidentRecord]) -> list[tuple[int, int | None]]:
    """The steps whose checkpoints are unsafe."""
    return unsafe_spans(map(Broken.of_record, records))


def record(opened: Event, reason: str, step: int, by: str = "") -> IncidentRecord:
    """An incident that was resolved."""
    known = IncidentRecord.of(opened)
    known.add(replace(opened, event="resolved", reason=reason, step=step, by=by))
    return known


def test_a_level_that_a_person_accepted_makes_no_checkpoint_unsafe() -> None:
    """One that klarm accepted by itself was broken until then."""
    assert spans([record(OPENED, "accepted", 150, by="ada")]) == []
    assert spans([record(OPENED, "accepted", 150)]) == [(100, 150)]


def test_a_superseded_incident_ends_with_the_one_that_follows_it() -> None:
    """Its metric was broken until that one had recovered."""
    first = record(OPENED, "superseded", 150)
    second = replace(OPENED, id="b", step=150, started=148, follows="a")
    assert spans([first, record(second, "recovered", 200)]) == [(100, 200), (148, 200)]
    assert spans([first, record(second, "closed", 200)]) == [(100, None), (148, None)]
    assert spans([first, IncidentRecord.of(second)]) == [(100, None), (148, None)]
