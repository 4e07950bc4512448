"""Which onset messages name: one that is well before the first alert."""

from __future__ import annotations

from klarm.types import Event

# If the first alert came this many rows after the metric left its normal range, messages say so.
_MIN_ROWS_LATE = 6


def early_onset(event: Event) -> int | None:
    """Return when the metric left its normal range, if that was well before the first alert."""
    if event.onset is None:
        return None
    # Earlier journals do not have the number of rows; most logs have one per step.
    late = event.started - event.onset if event.onset_rows is None else event.onset_rows
    return event.onset if late >= _MIN_ROWS_LATE else None
