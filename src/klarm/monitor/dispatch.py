"""Dispatch: passes each row to the detectors, in as little time as possible."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import repeat
from operator import itemgetter
from typing import Any

from klarm import boundary
from klarm.detectors import Detector, resets
from klarm.types import Alert

# `_observe` of a detector, which takes a value, or `update` or `_note`, which take a row.
_Method = Callable[[int, Any], Alert | None]


class Dispatch:
    """Calls detectors with each row. A detector that fails affects no other.

    Almost every row has the same metrics as the one before, and only finite values. Most detectors
    then need nothing but the value of their metric, once they have enough values: their `_observe`
    is called directly. `Detector.shortcut` says for which this is allowed.
    """

    def __init__(
        self, detectors: Iterable[Detector], on_failure: Callable[[str, Exception], object]
    ) -> None:
        """Prepare to call detectors. If one raises, `on_failure` gets its name."""
        self._detectors = list(detectors)
        self._on_failure = on_failure
        self._order = {detector.name: at for at, detector in enumerate(self._detectors)}
        self._updates: list[_Method] = [detector.update for detector in self._detectors]
        # What follows is valid for rows with these metrics, until a detector is reset.
        self._names: tuple[str, ...] = ()
        self._resets = -1
        self._methods: list[_Method] = []  # first those that take a whole row
        self._read: Callable[[Mapping[str, float]], tuple[Any, ...]] = _nothing
        self._whole_rows = 0  # how many these are
        self._was_finite = True  # whether all values of the last row were
        self._counting: list[Detector] = []  # those that will be called directly later

    def alerts(self, step: int, values: Mapping[str, float]) -> list[Alert]:
        """Return the alerts of a row, in the order of the detectors."""
        alerts: list[Alert] = []
        total = sum(values.values())
        is_finite = total - total == 0.0  # not if the sum overflows, but that is rare
        if not (is_finite and self._was_finite):
            self._was_finite = is_finite
            self._call(step, self._updates, repeat(values), alerts)
            return alerts
        names = tuple(values)
        if names != self._names or self._resets != resets.count:
            self._plan(names)
        self._call(step, self._methods, (values,) * self._whole_rows + self._read(values), alerts)
        if self._counting and not all(detector.counts_values for detector in self._counting):
            self._resets = -1  # one more can be called directly from the next row on
        if len(alerts) > 1:
            alerts.sort(key=lambda alert: self._order[alert.detector])
        return alerts

    def _plan(self, names: tuple[str, ...]) -> None:
        """Decide how each detector is called with rows that have these metrics."""
        self._names, self._resets = names, resets.count
        self._counting = []
        metrics: list[str] = []
        values: list[_Method] = []
        rows: list[_Method] = []
        for detector in self._detectors:
            metric, *context = detector.watches
            shortcut = detector.shortcut
            if shortcut == "alone" and set(context).isdisjoint(names):
                shortcut = "always"
            if shortcut == "idle":
                continue
            if shortcut != "always":
                rows.append(detector.update)
            elif not detector.counts_values:
                if detector.notes_others:
                    rows.append(detector._note)
                if metric in names:
                    values.append(detector._observe)
                    metrics.append(metric)
            elif metric in names or detector.notes_others:
                rows.append(detector.update)
                self._counting.append(detector)
        self._read, self._methods = _reader(metrics), rows + values  # `_note` first
        self._whole_rows = len(rows)

    def _call(
        self,
        step: int,
        methods: Iterable[_Method],
        arguments: Iterable[Any],
        alerts: list[Alert],
    ) -> None:
        """Call each method with its argument, and add the alerts that they return."""
        calls = zip(methods, arguments)  # noqa: B905  # an argument would cost time
        while True:
            try:
                for method, argument in calls:
                    if (alert := method(step, argument)) is not None:
                        alerts.append(alert)
                return
            except Exception as error:  # noqa: BLE001  # a detector may raise anything
                self._report(method, error)

    def _report(self, method: Callable[..., object], error: Exception) -> None:
        if boundary.raise_failures:
            raise error
        self._on_failure(method.__self__.name, error)  # type: ignore[attr-defined]


def _reader(metrics: Sequence[str]) -> Callable[[Mapping[str, float]], tuple[Any, ...]]:
    """Return a function that returns the values of these metrics, in this order."""
    if len(metrics) > 1:
        return itemgetter(*metrics)
    if metrics:
        return lambda row: (row[metrics[0]],)  # itemgetter would return the value itself
    return _nothing


def _nothing(_: Mapping[str, float]) -> tuple[()]:
    return ()
