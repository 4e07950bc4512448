"""How a run is: its worst open incident, and whether a process still trains it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from klarm.journal.fold import Fold
from klarm.journal.incident import IncidentRecord
from klarm.journal.locks import is_surely_free
from klarm.journal.records import DETACHED
from klarm.types import SEVERITIES

RunHealth = Literal["critical", "warning", "unreadable", "unwatched", "ok", "empty"]
Activity = Literal["training", "finished", "stopped", "crashed", "interrupted", "detached"]

# The worst first: of a run that cannot be read or is not watched, nobody knows how it is.
_ORDER: tuple[RunHealth, ...] = (
    "critical",
    "warning",
    "unreadable",
    "unwatched",
    "ok",
    "empty",
)

# By how the last process says that it ended; what a later version may say is a finish.
# A run that is detached may still be trained: klarm no longer reads its log.
_ENDED: dict[str, Activity] = {
    "crashed": "crashed",
    "interrupted": "interrupted",
    "stopped": "stopped",
    DETACHED: "detached",
}


def rank_of(health: RunHealth) -> int:
    """Return the place of a run in an overview: the worst first."""
    return _ORDER.index(health)


def run_health(
    fold: Fold,
    incidents: Iterable[IncidentRecord],
    *,
    is_damaged: bool,
    is_watched: bool = True,
) -> RunHealth:
    """Return how bad a run is: its worst open incident, if it can be read and was watched."""
    worst = worst_of(incidents)
    if worst is not None:
        return worst.severity
    if fold.steps or fold.rolled_back:
        return "ok" if is_watched else "unwatched"
    return "unreadable" if is_damaged else "empty"


def worst_of(incidents: Iterable[IncidentRecord]) -> IncidentRecord | None:
    """Return the worst incident that is open; of equals, the first."""
    still_open = [known for known in incidents if known.is_open]
    return max(still_open, key=lambda known: SEVERITIES.index(known.severity), default=None)


def activity_of(fold: Fold, journal: Path) -> Activity:
    """Return whether a run is trained; if nobody can tell, it is taken for a run that is."""
    if fold.finished:
        return _ENDED.get(fold.outcome, "finished")
    return "stopped" if is_surely_free(journal) else "training"
