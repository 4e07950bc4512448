"""How an incident stands: the same words in titles, in tables and on the page."""

from __future__ import annotations

from msgspec.structs import replace

from cases import over
from example_events import example_event
from klarm.journal import IncidentRecord
from klarm.types import Event
from klarm.wording import ending, standing, title

OPENED = example_event(event="opened")
END = replace(OPENED, event="resolved", reason="recovered", level=0.5, before=0.4)


@over(
    "end, how",
    [
        (END, "recovered"),
        (replace(END, level=1.7), "resolved (at a new level)"),
        (replace(END, reason="closed"), "closed"),
        (replace(END, reason="rolled_back"), "rolled back"),
    ],
)
def test_title_and_table_call_an_end_by_the_same_words(end: Event, how: str) -> None:
    """Nobody has to find out whether two words mean the same."""
    record = IncidentRecord.of(OPENED)
    record.add(end)
    assert standing(record, may_go_on=False) == how
    assert ending(end) in how
    assert how in title(end)


def test_an_open_incident_of_a_run_that_ended_is_unresolved() -> None:
    """While the run may go on, it is open."""
    record = IncidentRecord.of(OPENED)
    assert standing(record, may_go_on=True) == "open"
    assert standing(record, may_go_on=False) == "unresolved when the run ended"
    assert "(unresolved when the run ended)" in title(replace(OPENED, event="ended"))
