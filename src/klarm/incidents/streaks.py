"""Streaks: the number of consecutive rows with an alert."""

from __future__ import annotations

from collections.abc import Set

# A detector and a severity. The detector "" stands for the signal, which counts in every row.
Key = tuple[str, str]


class Streaks:
    """Counts consecutive rows by key. A key counts once per row, which may come in several dicts.

    >>> streaks = Streaks()
    >>> for alerted in (True, True, False):
    ...     if alerted:
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
        """Count these keys in the current row."""
        now, rows = self._now, self._rows
        for key in keys:
            if key not in now:
                now.add(key)
                rows[key] = rows.get(key, 0) + 1

    def keep(self, *keys: Key) -> None:
        """Keep the streaks of these keys without extending them: the values are not new."""
        for key in keys:
            if key in self._rows:
                self._now.add(key)
            else:
                self.add(key)

    def end_row(self, looked: Set[str]) -> None:
        """End the row, and the streaks of the detectors that had a value but raised no alert."""
        now = self._now
        for key in [key for key in self._rows if key not in now]:
            if not key[0] or key[0] in looked:
                del self._rows[key]
        now.clear()
