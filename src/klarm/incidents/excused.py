"""Alerts that did not count: an incident that opens right after them began with the first."""

from __future__ import annotations

from collections.abc import Iterable

from klarm.incidents.recovery import Kind

# After so many rows without an alert, they have nothing to do with what comes.
_QUIET_ROWS = 5
# What was excused for longer than so many rows was no beginning, but a level of its own.
_MAX_ROWS = 50


class ExcusedAlerts:
    """Since when a metric is in alerts that other signals excuse.

    >>> excused = ExcusedAlerts()
    >>> excused.add(("kl", "higher"), step=152)
    >>> excused.end_row()
    >>> excused.since([("kl", "higher")]), excused.since([("kl", "lower")])
    (152, None)
    """

    def __init__(self) -> None:
        self._first: dict[Kind, int] = {}  # the step of the first
        self._rows = 0  # since the first of any kind
        self._quiet = 0  # rows without one

    def __bool__(self) -> bool:
        return bool(self._first)

    def add(self, kind: Kind, step: int) -> None:
        """Note one."""
        self._first.setdefault(kind, step)
        self._quiet = 0

    def end_row(self) -> None:
        """End a row of the signal."""
        if not self._first:
            return
        self._rows += 1
        self._quiet += 1
        if self._quiet > _QUIET_ROWS:
            self._first.clear()
            self._rows = 0

    def since(self, kinds: Iterable[Kind]) -> int | None:
        """Return the step at which the first of these kinds began, if that is not long ago."""
        found = [self._first[kind] for kind in kinds if kind in self._first]
        return min(found, default=None) if self._rows <= _MAX_ROWS else None
