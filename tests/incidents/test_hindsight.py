"""Which onset messages name, and what their peak covers."""

from __future__ import annotations

import pytest

from klarm.detectors import GradientNormSpikeDetector
from klarm.incidents.event_facts import early_onset
from klarm.testing import events_of
from klarm.types import Event

USUAL = [0.4, 0.6] * 60


def opened(values: list[float]) -> Event:
    """Return the event that opens the incident of a run with these gradient norms."""
    return events_of(GradientNormSpikeDetector(), USUAL + values)[0]


@pytest.mark.parametrize(("rows", "named"), [(5, False), (6, True)])
def test_an_onset_well_before_the_first_alert_is_named(rows: int, named: bool) -> None:
    """Rows count, not steps."""
    event = opened([2.0] * 5)
    late = Event(
        **{
            **{name: getattr(event, name) for name in event.__struct_fields__},
            "onset": event.started - 10 * rows,
            "onset_rows": rows,
        }
    )
    assert early_onset(late) == (late.onset if named else None)


def test_a_peak_is_not_older_than_the_step_at_which_messages_say_it_began() -> None:
    """A spike just before the alerts in a row was called the peak of an incident after it."""
    event = opened([1.5, 1.5, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0])
    assert event.onset is not None
    assert event.onset < event.started == len(USUAL) + 3
    assert (early_onset(event), event.peak) == (None, 1.0)
