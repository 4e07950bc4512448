"""The health of a run: its worst open incident, and whether a process is still training it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal

from klarm.journal.fold import Fold
from klarm.journal.incident import IncidentRecord
from klarm.journal.records import DETACHED, KILLED
from klarm.types import SEVERITIES

RunHealth = Literal["critical", "warning", "unreadable", "unwatched", "ok", "empty"]
Activity = Literal["training", "finished", "stopped", "crashed", "interrupted", "detached"]

# The worst first. A run that cannot be read, or is not watched, may be in any state.
_ORDER: tuple[RunHealth, ...] = (
    "critical",
    "warning",
    "unreadable",
    "unwatched",
    "ok",
    "empty",
)

# How the last process recorded its end. An outcome that only a later version knows is a finish.
# A detached run may still be training: klarm no longer reads its log.
_ENDED: dict[str, Activity] = {
    "crashed": "crashed",
    "interrupted": "interrupted",
    "stopped": "stopped",
    KILLED: "stopped",
    DETACHED: "detached",
}


def rank_of(health: RunHealth) -> int:
    """Return the rank of a run in an overview: the worst comes first."""
    return _ORDER.index(health)


def run_health(
    fold: Fold,
    incidents: Iterable[IncidentRecord],
    *,
    is_damaged: bool,
    is_watched: bool = True,
) -> RunHealth:
    """Return the severity of the worst open incident, or whether the run is known to be fine."""
    worst = worst_of(incidents)
    if worst is not None:
        return worst.severity
    if fold.steps or fold.rolled_back:
        return "ok" if is_watched else "unwatched"
    return "unreadable" if is_damaged else "empty"


def worst_of(incidents: Iterable[IncidentRecord]) -> IncidentRecord | None:
    """Return the worst open incident; if several are equally bad, the first of them."""
    still_open = [known for known in incidents if known.is_open]
    return max(still_open, key=lambda known: SEVERITIES.index(known.severity), default=None)


def activity_of(fold: Fold, is_free: Callable[[], bool]) -> Activity:
    """Return whether a run is training, or how it ended; in doubt, it is training.

    `is_free` returns whether surely no process is recording it.
    """
    if fold.finished:
        return _ENDED.get(fold.outcome, "finished")
    return "stopped" if is_free() else "training"
