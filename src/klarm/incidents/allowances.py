"""Allowances: levels that people have closed or accepted; up to them no incident opens again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isfinite

from klarm.incidents.confirmation import is_more_severe
from klarm.incidents.measured import Measured
from klarm.incidents.recovery import Kind, is_times_worse
from klarm.types import Severity


class Allowances:
    """The levels that one signal may reach without opening an incident, as people decided."""

    def __init__(self, factor: float, quiet_rows: int) -> None:
        self._factor = factor
        self._quiet_rows = quiet_rows
        self._accepted: dict[Kind, float] = {}  # only for detectors with a fixed limit
        self._closed: dict[Kind, float] = {}  # until the signal has been quiet
        self._closed_names: frozenset[str] = frozenset()  # names of lost metrics
        self._closed_severity: Severity = "warning"
        self._quiet = 0

    def __bool__(self) -> bool:
        return bool(self._closed)

    def close(
        self, levels: Mapping[Kind, float], severity: Severity, names: frozenset[str]
    ) -> None:
        """Allow these kinds until they get clearly worse or more severe, or the signal is quiet."""
        self._closed.update(levels)
        self._closed_names |= names
        self._closed_severity = severity
        self._quiet = 0

    def accept(self, levels: Mapping[Kind, float]) -> None:
        """Accept these levels as normal, even above a fixed limit."""
        self._accepted.update(levels)

    def allows(self, measured: Measured) -> bool:
        """Return whether an alert is about a level that somebody has closed or accepted."""
        if not self._closed and not self._accepted:
            return False
        if measured.names:  # the value is a number of steps, which always grows
            return measured.kind in self._closed and measured.names <= self._closed_names
        if measured.value is None or not isfinite(measured.value):
            return False
        if measured.detector.has_fixed_limit and self._is_within(
            measured.kind, measured.value, self._accepted
        ):
            return True
        more_severe = is_more_severe(measured.alert.severity, self._closed_severity)
        return not more_severe and self._is_within(measured.kind, measured.value, self._closed)

    def end_row(self, *, quiet: bool) -> None:
        """Count a row. After enough quiet rows, closed kinds may open an incident again."""
        self._quiet = self._quiet + 1 if quiet else 0
        if self._quiet >= self._quiet_rows:
            self._closed.clear()
            self._closed_names = frozenset()

    def lift(self, kinds: Iterable[Kind]) -> None:
        """Forget that these kinds were closed, because they are clearly worse or more severe."""
        for kind in kinds:
            self._closed.pop(kind, None)

    def _is_within(self, kind: Kind, value: float, levels: Mapping[Kind, float]) -> bool:
        if kind not in levels:
            return False
        return not is_times_worse(value, levels[kind], kind[1], self._factor)
