"""Rows of an earlier step: late values, repeated ones, or a sign of a rollback."""

from __future__ import annotations

from collections.abc import Mapping, Set

from klarm.journal import LateRow
from klarm.monitor.evaluator import Evaluator
from klarm.monitor.steps import Timeline


class LateRows:
    """Decides what a row is whose step lies before the current one.

    An evaluation that lags by a few steps logs such rows all the time, and a rollback is expensive,
    so a row counts as a rollback only if it contradicts what the detectors have seen.
    """

    def __init__(self, timeline: Timeline, evaluator: Evaluator, metrics: Set[str]) -> None:
        """Take the metrics that klarm knows by name; others never decide anything."""
        self._timeline = timeline
        self._evaluator = evaluator
        self._metrics = metrics

    def place(
        self, step: int, values: Mapping[str, float]
    ) -> tuple[LateRow | None, Mapping[str, float]]:
        """Return the late row of an earlier step, and the values that only repeat its record.

        The row is None if training was rolled back to that step. In that case, a metric that is
        judged was logged at that step or later already, and now has another value.
        """
        timeline, had = self._timeline, self._evaluator.tracker.recent.had
        known = timeline.logged_since(step, values)
        # In the order of `values`: the journal must not depend on the hash seed.
        repeats = {
            name: value
            for name, value in values.items()
            if name in known and had(name, step, value)
        }
        if repeats and repeats.keys() == values.keys() & self._metrics:
            # Unknown keys cannot be compared, so they count as repeated, too.
            return LateRow(timeline.step or 0, {}, step), values
        if not known.isdisjoint(self._evaluator.judged - repeats.keys()):
            return None, {}
        new = {name: value for name, value in values.items() if name not in repeats}
        timeline.note_late(step, new)
        return LateRow(timeline.step or 0, new, step), repeats
