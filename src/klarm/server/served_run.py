"""A run as the page shows it: the view of its logs, with an id for URLs and its rows on request."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from klarm.journal import IncidentRecord
from klarm.metrics import METRICS
from klarm.runs import Columns, Extent, FalseAlarm, RunState, RunView, marked
from klarm.server.problems import not_found
from klarm.server.row_cache import RowCache
from klarm.server.summary import RunSummary, summary_of
from klarm.store import id_of


class ServedRun(RunView):
    """A run for the duration of one request."""

    def __init__(self, state: RunState, folder: Path, size: int, cache: RowCache) -> None:
        super().__init__(state, folder, size=size)
        self.id, self._cache = id_of(state.run), cache
        self.cursor = 0  # of the changes: the view has all up to this one
        self.notices: list[str] = []  # about it, for the user

    @cached_property
    def summary(self) -> RunSummary:
        """The run in a few numbers."""
        return summary_of(self, self.id)

    @cached_property
    def columns(self) -> Columns:
        """Its rows. Of a run that does not fit into memory, only the main metrics."""
        return self._cache.of(self, ())

    def columns_with(self, metrics: Sequence[str]) -> Columns:
        """Return its rows with at least these metrics."""
        return self._cache.of(self, metrics)

    def extents(self) -> dict[str, Extent]:
        """Return what each of its metrics holds."""
        return self._cache.extents(self)

    @cached_property
    def marks(self) -> dict[str, FalseAlarm]:
        """The incidents that people have marked as false alarms."""
        return marked(self.store, self.run)

    def incident(self, id_: str) -> IncidentRecord:
        """Return one incident, or raise ApiError."""
        found = self.incidents.get(id_)
        if found is None:
            raise not_found(f"run {self.name} has no incident {id_}", "incident")
        return found

    def metric_names(self) -> list[str]:
        """Return the metrics that it logs; those klarm knows come first."""
        order = {name: place for place, name in enumerate(METRICS)}
        return sorted(self.latest, key=lambda name: (order.get(name, len(order)), name))
