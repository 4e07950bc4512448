"""Excused alerts: an incident that opens right after them began with the first of them."""

from __future__ import annotations

from collections.abc import Iterable

from klarm.incidents.recovery import Kind

# Why an alert on a tiny KL is excused. The other reasons are the Excused of detectors.
SMALL = "small"
# After more rows than this without an alert, they are unrelated to what follows.
_QUIET_ROWS = 5
# Alerts excused for more rows than this are a level of their own, not the beginning of an incident.
_MAX_ROWS = 50


class ExcusedAlerts:
    """The steps since which metrics have had alerts that other signals excuse.

    >>> excused = ExcusedAlerts()
    >>> excused.add(("kl", "higher"), step=152, why="paid_for")
    >>> excused.end_row()
    >>> excused.since([("kl", "higher")]), excused.since([("kl", "lower")])
    (152, None)
    """

    def __init__(self) -> None:
        self._first: dict[Kind, int] = {}  # the step of the first
        self._why: dict[Kind, str] = {}  # and what excused the last
        self._rows = 0  # since the first alert of any kind
        self._quiet = 0  # rows without an excused alert

    def __bool__(self) -> bool:
        return bool(self._first)

    def add(self, kind: Kind, step: int, why: str) -> None:
        """Add an excused alert."""
        self._first.setdefault(kind, step)
        self._why[kind] = why
        self._quiet = 0

    def end_row(self) -> None:
        """End a row of the signal."""
        if not self._first:
            return
        self._rows += 1
        self._quiet += 1
        if self._quiet > _QUIET_ROWS:
            self._first.clear()
            self._why.clear()
            self._rows = 0

    def since(self, kinds: Iterable[Kind]) -> int | None:
        """Return the first step of any of these kinds, unless it was long ago."""
        found = [self._first[kind] for kind in kinds if kind in self._first]
        return min(found, default=None) if self._rows <= _MAX_ROWS else None

    def excuse(self, kinds: Iterable[Kind], before: int) -> str:
        """Return what excused alerts of any of these kinds, if the first was before a step."""
        found = (self._why[kind] for kind in kinds if self._first.get(kind, before) < before)
        return next(found, "")
