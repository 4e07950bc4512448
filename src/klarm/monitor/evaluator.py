"""The evaluator: the detectors of a run and what their alerts amount to, and how to go back."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from msgspec.structs import replace

from klarm import boundary
from klarm.detectors import Detector
from klarm.incidents import Change, IncidentRules, Tracker
from klarm.journal import History, IncidentRecord, NewId, Resume, new_id
from klarm.metrics import Origin, to_number
from klarm.monitor.held import HeldValues
from klarm.settings import settings_of
from klarm.snapshots import Capture, Restore, UnfitError, class_name
from klarm.text import clean
from klarm.types import Alert, Command, Event
from klarm.version import __version__

_FLOATS = frozenset((float,))
_Update = Callable[[int, Mapping[str, float]], Alert | None]


class Evaluator:
    """Looks at one step after the other; knows nothing of journals, consoles and trainers."""

    def __init__(
        self,
        detectors: Iterable[Detector],
        rules: IncidentRules,
        *,
        ids: NewId = new_id,
        on_failure: Callable[[str, Exception], object] = lambda *_: None,
    ) -> None:
        """Prepare to look. `on_failure` is told which detector raised; others go on."""
        self.detectors = list(detectors)
        self._on_failure = on_failure
        self._rules = rules
        self.tracker = Tracker(self.detectors, rules, ids=ids)
        self._origins: dict[str, Origin] = {}  # by canonical name, as detectors were told
        self._active: list[Detector] = []  # on, and able to judge what this run logs
        self._asked: list[Detector] = []  # of them, those for which anything is logged at all
        self._updates: list[_Update] = []  # theirs
        self._held = HeldValues()
        self.bind({})

    def bind(self, origins: Mapping[str, Origin]) -> dict[str, Origin]:
        """Tell detectors where each metric is read; return what is worth recording.

        That a key is the metric's own name, of no known kind, is so only where it was not before.
        """
        known = self._origins
        new = {name: origin for name, origin in origins.items() if known.get(name) != origin}
        recording = {n: origin for n, origin in new.items() if known.get(n, Origin(n)) != origin}
        known.update(new)
        for detector in self.detectors:
            if detector.watches[0] in new:
                detector.bound(*new[detector.watches[0]])
        self._active = [d for d in self.detectors if d.enabled and not d.idle_because]
        self._ask(
            d for d in self._active if d.watches_all or not origins.keys().isdisjoint(d.watches)
        )
        return recording

    @property
    def judged(self) -> set[str]:
        """The metrics that detectors judge: to notice that one vanishes is not to judge it."""
        return {name for d in self._active if not d.watches_all for name in d.watches}

    def look(self, step: int, values: Mapping[str, float]) -> tuple[list[Alert], Sequence[Change]]:
        """Return what the detectors say of a step, and what that changes."""
        news = self._held.news(values)
        if news is values:
            alerts = self._said_of(step, values)
        else:
            alerts = self._said_of_held(step, values, news)
        if alerts:
            alerts = _once([_plain(alert) for alert in alerts])
        counting = alerts
        if alerts and news is not values:
            known = {detector.name: detector for detector in self._asked}
            counting = [alert for alert in alerts if known[alert.detector].looks_at(news)]
        same_batch = self._held.same_batch
        return alerts, self.tracker.update(step, news, counting, same_batch=same_batch)

    def rebuild(
        self,
        history: Iterable[History],
        told: Sequence[IncidentRecord],
        step: int,
        *,
        undone: bool = True,
        restored: bool = False,
    ) -> list[Event]:
        """Go back to just before a step; return what makes true again what was told.

        `undone` says whether there were rows from that step on, which no longer count. `restored`
        says that the history begins behind a snapshot that was restored.
        """
        tracker = self.tracker
        if not restored:
            self._reset()
        tracker.recall(told)
        asked = self._asked
        self._ask(self._active)  # the rows may hold what was not logged since
        ends = tracker.ends  # of those that were over in the snapshot
        changes: Sequence[Change]
        for entry in history:
            if isinstance(entry, Resume):
                changes = tracker.end_step()
                tracker.forget_recoveries()
            elif isinstance(entry, Command):
                changes = tracker.apply(entry, entry.step or 0)
            else:
                at, values = entry[:2]  # one that came late belongs to the step under way
                if at >= step:
                    continue
                _, changes = self.look(at, values)
            _note_ends(changes, ends)
        self._ask(asked)
        _note_ends(tracker.end_step(), ends)  # the last step is over too
        return tracker.reconcile(step, told, ends, undone=undone)

    @property
    def active(self) -> list[str]:
        """The detectors that judge, by name."""
        return [detector.name for detector in self._active]

    @cached_property
    def fingerprint(self) -> str:
        """A hash of what decides what is made of rows: settings, and the code that reads them."""
        detectors = [
            (class_name(type(d)), type(d).state_version, vars(type(d)).get("constants"), settings)
            for d in self.detectors
            if (settings := {name: getattr(d, name) for name in settings_of(type(d))})
        ]
        depends = (__version__, vars(self._rules), detectors)
        return hashlib.sha256(repr(depends).encode("utf-8", "replace")).hexdigest()

    def capture(self) -> dict[str, Any]:
        """Return what detectors have learnt and what became of it; raise UnfitError if it cannot.

        It goes with `restore`, in this process or another.
        """
        return Capture(self._parts).data

    def restore(self, data: Mapping[str, Any]) -> None:
        """Take up what was captured, or raise UnfitError and forget everything."""
        self._reset()
        try:
            with self.tracker.keeping_what_stays():
                Restore(data, self._parts)
        except UnfitError:
            self._reset()
            raise

    @property
    def _parts(self) -> dict[str, object]:
        return {**self.tracker.parts, "held": self._held}

    def _reset(self) -> None:
        for detector in self._active:
            detector.reset()
        self.tracker.reset()
        self._held.reset()

    def _ask(self, detectors: Iterable[Detector]) -> None:
        """Have these see every step from now on."""
        self._asked = list(detectors)
        self._updates = [detector.update for detector in self._asked]

    def _said_of(self, step: int, values: Mapping[str, float]) -> list[Alert]:
        """Return what is said of a row in which all is new. A detector that fails fails alone."""
        alerts: list[Alert] = []
        updates = iter(self._updates)
        while True:
            try:
                for update in updates:
                    if (alert := update(step, values)) is not None:
                        alerts.append(alert)
                return alerts
            except Exception as error:
                if boundary.raise_failures:
                    raise
                self._on_failure(update.__self__.name, error)  # type: ignore[attr-defined]

    def _said_of_held(
        self, step: int, values: Mapping[str, float], news: Mapping[str, float]
    ) -> list[Alert]:
        """Return what is said of a row in which values are held: most see only what is new."""
        alerts: list[Alert] = []
        for detector in self._asked:
            seen = values if detector.counts_held_values else news
            try:
                if (alert := detector.update(step, seen)) is not None:
                    alerts.append(alert)
            except Exception as error:
                if boundary.raise_failures:
                    raise
                self._on_failure(detector.name, error)
        return alerts


def _note_ends(changes: Iterable[Change], ends: dict[str, Event]) -> None:
    for change in changes:
        if isinstance(change, Event):
            if change.event == "resolved":
                ends[change.id] = change
            else:
                ends.pop(change.id, None)  # it has reopened


def _once(alerts: list[Alert]) -> list[Alert]:
    """Every detector of a metric says that it is not finite; once is enough."""
    if len(alerts) == 1:
        return alerts
    return list({alert.message: alert for alert in reversed(alerts)}.values())[::-1]


def _plain(alert: Alert) -> Alert:
    """Return an alert of floats and safe text, whatever a detector put into it.

    A detector of the user's own may compute with numpy or torch, and an int is a number, too. What
    is neither a number nor text is left out.
    """
    if not (alert.message.isprintable() and alert.recommendation.isprintable()):
        alert = replace(
            alert, message=clean(alert.message), recommendation=clean(alert.recommendation)
        )
    if _FLOATS.issuperset(map(type, alert.metrics.values())):
        return alert
    metrics: dict[str, float | str] = {}
    for name, value in alert.metrics.items():
        known = clean(value) if isinstance(value, str) else to_number(value)
        if known is not None:
            metrics[clean(name)] = known
    return replace(alert, metrics=metrics)
