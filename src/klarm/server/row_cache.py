"""The rows of the runs that people look at, in memory; those not looked at for longest go first."""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence

from klarm.runs import SHOWN_METRICS, Columns, Extent, RunView

MAX_BYTES = 400 * 2**20
_BYTES_PER_VALUE = 8


class _Rows:
    """The columns of one run."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.columns: Columns | None = None
        self.version: object = None  # changes when rows were rolled back, or the journal replaced
        self.extents: dict[str, Extent] = {}  # of a run that does not fit, when last read

    @property
    def bytes(self) -> int:
        return 0 if self.columns is None else self.columns.bytes


class RowCache:
    """Reads columns on request. Any number of threads may ask."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._runs: dict[str, _Rows] = {}  # the last asked for is the last

    def of(self, view: RunView, metrics: Sequence[str]) -> Columns:
        """Return the rows of a run, with at least these metrics, up to where the view knows it."""
        rows = self._rows(view.run)
        with rows.lock:
            undone = sum(back.last is not None for back in view.state.rollbacks)
            version = undone, view.fold.began, view.state.inode
            columns = rows.columns
            wanted = self._wanted(view, metrics, columns)
            is_known = columns is not None and rows.version == version
            if columns is None or not is_known or not _covers(columns.wanted, wanted):
                columns = Columns(
                    view.store,
                    view.run,
                    view.state.rollbacks,
                    wanted,
                    expected_rows=view.fold.steps,
                )
                rows.columns, rows.version = columns, version
            while columns.read(view.state.read_to):
                pass
        self._shrink()
        return columns

    def extents(self, view: RunView) -> dict[str, Extent]:
        """Return what each column of a run holds."""
        names = list(view.latest)
        if self._fits(view, len(names)):
            columns = self.of(view, ())
            return {name: found for name in names if (found := columns.extent(name)) is not None}
        # Reading all of it in parts takes long, so it is repeated only once it has changed a lot.
        rows = self._rows(view.run)
        known = next(iter(rows.extents.values()), None)
        if known is None or view.fold.steps > 1.1 * known.values:
            part = max(1, self._max_bytes // (_BYTES_PER_VALUE * max(1, view.fold.steps)) - 3)
            for begin in range(0, len(names), part):
                columns = Columns(
                    view.store, view.run, view.state.rollbacks, names[begin : begin + part]
                )
                while columns.read(view.state.read_to):
                    pass
                for name in names[begin : begin + part]:
                    if (found := columns.extent(name)) is not None:
                        rows.extents[name] = found
        return dict(rows.extents)

    def forget(self, run: str) -> None:
        """Drop the rows of a run that is gone."""
        with self._lock:
            self._runs.pop(run, None)

    def _rows(self, run: str) -> _Rows:
        with self._lock:
            rows = self._runs.pop(run, None) or _Rows()
            self._runs[run] = rows
            return rows

    def _wanted(
        self, view: RunView, metrics: Collection[str], known: Columns | None
    ) -> frozenset[str] | None:
        """Return the metrics to keep; None: all, as nearly always."""
        if self._fits(view, len(view.latest)):
            return None
        wanted = frozenset({*SHOWN_METRICS, *metrics})
        together = wanted | (known.wanted or frozenset() if known is not None else frozenset())
        return together if self._fits(view, len(together)) else wanted

    def _fits(self, view: RunView, metrics: int) -> bool:
        return _BYTES_PER_VALUE * view.fold.steps * (metrics + 2) <= self._max_bytes

    def _shrink(self) -> None:
        """Drop what was not looked at for longest."""
        with self._lock:
            total = sum(rows.bytes for rows in self._runs.values())
            for run, rows in list(self._runs.items())[:-1]:
                if total <= self._max_bytes:
                    return
                total -= rows.bytes
                del self._runs[run]


def _covers(kept: frozenset[str] | None, wanted: frozenset[str] | None) -> bool:
    return kept is None or (wanted is not None and wanted <= kept)
