"""Streaks: how many rows in a row something was said."""

from __future__ import annotations

from collections.abc import Set

# Who said it, and what. Nobody in particular is "": that counts in every row.
Key = tuple[str, str]


class Streaks:
    """Counts rows by key. Several dicts may make up a row, so a key counts once until it ends.

    >>> streaks = Streaks()
    >>> for said in (True, True, False):
    ...     if said:
    ...         streaks.add(("kl_budget", "critical"))
    ...     streaks.end_row({"kl_budget"})
    >>> streaks["kl_budget", "critical"]
    0
    """

    def __init__(self) -> None:
        self._rows: dict[Key, int] = {}
        self._now: set[Key] = set()

    def __getitem__(self, key: Key) -> int:
        return self._rows.get(key, 0)

    def add(self, *keys: Key) -> None:
        """Note that something was said in this row."""
        now, rows = self._now, self._rows
        for key in keys:
            if key not in now:
                now.add(key)
                rows[key] = rows.get(key, 0) + 1

    def keep(self, *keys: Key) -> None:
        """Note that it was said again of what is known: that counts no further."""
        for key in keys:
            if key in self._rows:
                self._now.add(key)
            else:
                self.add(key)

    def end_row(self, looked: Set[str]) -> None:
        """End the row: of those that could have spoken, who did not has no streak any more."""
        now = self._now
        for key in [key for key in self._rows if key not in now]:
            if not key[0] or key[0] in looked:
                del self._rows[key]
        now.clear()
