"""Streaks: how many rows in a row something was said."""

from __future__ import annotations

from collections.abc import Collection


class Streaks:
    """Counts rows by key. Several dicts may make up a row, so a key counts once until it ends.

    >>> streaks = Streaks()
    >>> for said in ("critical", "critical", ""):
    ...     streaks.add(said)
    ...     streaks.end_row(["critical"])
    >>> streaks["critical"]
    0
    """

    def __init__(self) -> None:
        self._rows: dict[str, int] = {}
        self._now: set[str] = set()

    def __getitem__(self, key: str) -> int:
        return self._rows.get(key, 0)

    def add(self, key: str) -> None:
        """Note that something was said in this row."""
        if key not in self._now:
            self._now.add(key)
            self._rows[key] = self._rows.get(key, 0) + 1

    def end_row(self, looked: Collection[str]) -> None:
        """End the row: of those that could have spoken, who did not has no streak any more."""
        for key in looked:
            if key not in self._now:
                self._rows.pop(key, None)
        self._now.clear()
