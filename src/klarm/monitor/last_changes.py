"""What the end of a run changes: incidents end with it, and a crash is one of its own."""

from __future__ import annotations

from collections.abc import Sequence

from klarm.incidents import Change, Tracker, is_crash
from klarm.journal import Fold, ended_by_crash
from klarm.monitor.ending import REASONS, Ending
from klarm.monitor.steps import Timeline


def last_changes(
    ending: Ending, tracker: Tracker, timeline: Timeline, recorded: Fold | None
) -> Sequence[Change]:
    """End the incidents of a run; return what changes. `recorded` is its journal, if it has one."""
    changes: Sequence[Change]
    reason = REASONS[ending.outcome]
    if reason is None:
        return [] if timeline.from_earlier_process else tracker.end_step()
    if timeline.from_earlier_process and recorded is not None:
        changes = ended_by_crash(recorded)  # this process has not logged a single step
        tracker.recall(recorded.incidents.values())
        known = [record.opened for record in recorded.incidents.values() if record.is_open]
    else:
        changes, known = tracker.finish(reason), []
    # A crash before the first step opens no incident: somebody is still watching. A run that fails
    # again and again without a step in between opens one, the first time. A process that was
    # killed has no error.
    is_crashed = ending.outcome == "crashed" and ending.error
    if is_crashed and timeline.step is not None and not any(map(is_crash, known)):
        changes = [*changes, tracker.crashed(timeline.step, ending.error)]
    return changes
