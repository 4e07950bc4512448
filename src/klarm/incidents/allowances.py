"""Allowances: levels that people have closed or accepted, below which nothing opens again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isfinite

from klarm.incidents.confirmation import is_graver
from klarm.incidents.measured import Measured
from klarm.incidents.recovery import Kind, is_times_worse
from klarm.types import Severity


class Allowances:
    """What one signal may do without opening an incident, because somebody has said so."""

    def __init__(self, factor: float, quiet_rows: int) -> None:
        self._factor = factor
        self._quiet_rows = quiet_rows
        self._accepted: dict[Kind, float] = {}  # for detectors with a fixed limit
        self._closed: dict[Kind, float] = {}  # until it was quiet
        self._closed_names: frozenset[str] = frozenset()  # of metrics that were lost
        self._closed_severity: Severity = "warning"
        self._quiet = 0

    def __bool__(self) -> bool:
        return bool(self._closed)

    def close(
        self, levels: Mapping[Kind, float], severity: Severity, names: frozenset[str]
    ) -> None:
        """Open nothing of these kinds that is not graver or clearly worse, until it is quiet."""
        self._closed.update(levels)
        self._closed_names |= names
        self._closed_severity = severity
        self._quiet = 0

    def accept(self, levels: Mapping[Kind, float]) -> None:
        """Take these levels for normal, whatever a fixed limit says."""
        self._accepted.update(levels)

    def allows(self, said: Measured) -> bool:
        """Tell whether an alert is about what somebody has closed or accepted."""
        if not self._closed and not self._accepted:
            return False
        if said.names:  # its value is a count of steps, which grows by itself
            return said.kind in self._closed and said.names <= self._closed_names
        if said.value is None or not isfinite(said.value):
            return False
        if said.detector.has_fixed_limit and self._is_within(said.kind, said.value, self._accepted):
            return True
        graver = is_graver(said.alert.severity, self._closed_severity)
        return not graver and self._is_within(said.kind, said.value, self._closed)

    def end_row(self, *, quiet: bool) -> None:
        """Count a row; what was closed may open again once it was quiet for long enough."""
        self._quiet = self._quiet + 1 if quiet else 0
        if self._quiet >= self._quiet_rows:
            self._closed.clear()
            self._closed_names = frozenset()

    def lift(self, kinds: Iterable[Kind]) -> None:
        """Forget that these were closed: they are clearly worse, or graver."""
        for kind in kinds:
            self._closed.pop(kind, None)

    def _is_within(self, kind: Kind, value: float, levels: Mapping[Kind, float]) -> bool:
        if kind not in levels:
            return False
        return not is_times_worse(value, levels[kind], kind[1], self._factor)
