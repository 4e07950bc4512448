"""Since when metrics have been in alert, whether or not their alerts count."""

from __future__ import annotations

from collections.abc import Iterable, Set

from klarm.incidents.recovery import Kind

# Alerts that were excused for more rows than this are a level of their own, not the beginning of an
# incident.
_MAX_ROWS = 50


class InAlert:
    """The first step of the consecutive rows in which a metric has had alerts.

    Other signals decide which alerts count, but not when the trouble began.

    >>> in_alert = InAlert()
    >>> for step in (152, 153):
    ...     in_alert.add(("kl", "higher"), "kl_explosion", step)
    ...     in_alert.end_row({"kl_explosion"})
    >>> in_alert.since([("kl", "higher")])
    152
    >>> in_alert.end_row({"kl_explosion"})
    >>> in_alert.since([("kl", "higher")])
    """

    def __init__(self) -> None:
        self._first: dict[Kind, int] = {}  # the step of the first alert
        self._rows: dict[Kind, int] = {}  # since then
        self._detectors: dict[Kind, set[str]] = {}
        self._now: set[Kind] = set()  # those with an alert in this row

    def __bool__(self) -> bool:
        return bool(self._first)

    def add(self, kind: Kind, detector: str, step: int) -> None:
        """Add an alert on a metric."""
        self._first.setdefault(kind, step)
        self._detectors.setdefault(kind, set()).add(detector)
        self._now.add(kind)

    def end_row(self, looked: Set[str]) -> None:
        """End a row in which these detectors had a value to judge."""
        for kind in list(self._first):
            if kind in self._now or looked.isdisjoint(self._detectors[kind]):
                self._rows[kind] = self._rows.get(kind, 0) + 1
            else:
                del self._first[kind], self._detectors[kind]
                self._rows.pop(kind, None)
        self._now.clear()

    def since(self, kinds: Iterable[Kind]) -> int | None:
        """Return since when any of these has been in alert, unless that was long ago."""
        known = [kind for kind in kinds if kind in self._first]
        recent = [self._first[kind] for kind in known if self._rows.get(kind, 0) <= _MAX_ROWS]
        return min(recent, default=None)

    def ignored_since(self, kinds: Iterable[Kind]) -> int | None:
        """Return since when any of these had been in alert, if that was long ago."""
        long_ago = [kind for kind in kinds if self._rows.get(kind, 0) > _MAX_ROWS]
        return min((self._first[kind] for kind in long_ago), default=None)
