"""The checkpoints that the trainer has saved, and which of them to go back to."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from klarm.incidents.loadable import problem_with
from klarm.journal import IncidentRecord, Limit
from klarm.types import METRIC_AFTER, Event, Incident, MetricAfter

Saved = tuple[int, str]  # the step and the path
Span = tuple[int, int | None]  # the first step, and the step after the last; None: no end
# How many are kept in memory; the journal has all of them.
_MAX_KEPT = 100


def unsafe_since(incident: Incident | Event) -> int:
    """Return the step from which on checkpoints are not from before an incident."""
    known = (incident.started, incident.onset, incident.unsafe_from)
    return min(step for step in known if step is not None)


class Broken(NamedTuple):
    """What an incident says about checkpoints, whether it is tracked or was recorded."""

    id: str
    follows: str
    is_critical: bool
    since: int
    until: int | None  # the step at which its metric was back to normal; None if it is not
    after: MetricAfter | None  # None if the incident is unresolved
    by: str

    @classmethod
    def of(cls, incident: Incident) -> Broken:
        """Return what a tracked incident says."""
        is_resolved = incident.state == "resolved"
        after = METRIC_AFTER.get(incident.reason) if is_resolved else None
        until = incident.back if after == "bad" else incident.ended
        return cls(
            id=incident.id,
            follows=incident.follows,
            is_critical=incident.severity == "critical",
            since=unsafe_since(incident),
            until=until if is_resolved else None,
            after=after,
            by=incident.by,
        )

    @classmethod
    def of_record(cls, record: IncidentRecord) -> Broken:
        """Return what a recorded incident says.

        The journal does not record when a metric recovered after its incident was closed.
        """
        after = METRIC_AFTER.get(record.reason) if record.state == "resolved" else None
        is_over = record.recovered or after == "accepted"
        return cls(
            id=record.id,
            follows=record.opened.follows,
            is_critical=record.severity == "critical",
            since=unsafe_since(record.opened),
            until=record.last.step if is_over else None,
            after=after,
            by=record.last.by,
        )


def unsafe_spans(incidents: Iterable[Broken]) -> list[Span]:
    """Return the spans of steps in which the run was broken, so that checkpoints are unsafe."""
    known = {incident.id: incident for incident in incidents if incident.after != "undone"}
    followers = {incident.follows: incident for incident in known.values() if incident.follows}
    spans: list[Span] = []
    for incident in known.values():
        last = incident
        while last.after == "followed" and last.id in followers:
            last = followers[last.id]
        is_accepted = last.after == "accepted" and last.by  # a person accepted this level
        if incident.is_critical and not is_accepted:
            spans.append((incident.since, last.until))
    return spans


def with_first_unsafe_step(event: Event, others: Iterable[Incident]) -> Event:
    """Return an event with the step from which on checkpoints are unsafe, given other incidents.

    A checkpoint from before one incident is no good if a critical one had begun by then.
    """
    critical = [unsafe_since(other) for other in others if other.severity == "critical"]
    if not critical:
        return event
    first = min(*critical, unsafe_since(event))
    return replace(event, unsafe_from=first, beside_critical=True)


class Checkpoints:
    """Remembers the saved checkpoints of the part of the run that was not rolled back."""

    def __init__(self) -> None:
        self._saved: deque[Saved] = deque(maxlen=_MAX_KEPT)
        self._damaged: set[str] = set()  # paths that could not be loaded at the last check

    @property
    def saved(self) -> list[Saved]:
        """The checkpoints that were not rolled back, in order."""
        return list(self._saved)

    def recall(self, saved: Iterable[Saved]) -> None:
        """Set the checkpoints to those that an earlier process recorded."""
        self._saved = deque(saved, maxlen=_MAX_KEPT)

    def add(self, step: int, path: str, *, damaged: bool = False) -> None:
        """Add a checkpoint, and whether it cannot be loaded.

        Earlier checkpoints that were deleted or overwritten are forgotten: trainers keep the last
        few, or the best.
        Damaged ones are checked again, because some trainers write in the background. This reads
        from the disk, for which the trainer has just waited itself.
        """
        kept = [saved for saved in self._saved if saved[1] != path and is_there(saved[1])]
        self._saved = deque([*kept, (step, path)], maxlen=_MAX_KEPT)
        self._damaged = {known for known in self._damaged if problem_with(known)}
        if damaged:
            self._damaged.add(path)

    def go_back_to(self, step: int) -> None:
        """Forget the checkpoints that no longer count when training goes back to a step."""
        limit = Limit(step)
        kept = [saved for saved in self._saved if limit.keeps_checkpoint(saved[0])]
        self._saved = deque(kept, maxlen=_MAX_KEPT)

    def last_before(
        self, step: int, unsafe: Iterable[Span], is_good: Callable[[str], bool]
    ) -> Saved | None:
        """Return the latest loadable checkpoint before a step that is not in an unsafe span.

        `is_good` is called with the path of each candidate.
        """
        spans = list(unsafe)
        for at, path in reversed(self._saved):
            if (
                at < step
                and not any(first <= at and (end is None or at < end) for first, end in spans)
                and path not in self._damaged
                and is_good(path)
            ):
                return at, path
        return None


def is_there(path: str) -> bool:
    """Return whether a local path exists. A path in a bucket or on another machine is trusted."""
    try:
        return Path(path).exists() or not Path(path).parent.is_dir()
    except (OSError, ValueError):
        return True


def damage_of(path: str) -> str:
    """Return what is wrong with a checkpoint, if anything. A missing one may yet be written."""
    return problem_with(path) if is_there(path) else ""


def can_be_loaded(path: str) -> bool:
    """Return whether a checkpoint looks complete. One on another machine is trusted."""
    return not problem_with(path)
