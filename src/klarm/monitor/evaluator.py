"""The evaluator: runs the detectors and the incident tracker, and rebuilds them on a rollback."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from msgspec.structs import replace

import klarm.wording  # noqa: F401  # the first alert, on the training thread, must not wait for it
from klarm import boundary
from klarm.detectors import Detector
from klarm.incidents import Change, IncidentRules, Tracker, own_keys
from klarm.journal import History, IncidentRecord, LateRow, NewId, Resume, new_id
from klarm.metrics import Origin, advice_of, to_number
from klarm.monitor.held import HeldValues
from klarm.settings import settings_of
from klarm.snapshots import Capture, Restore, UnfitError, class_name
from klarm.text import clean
from klarm.types import Alert, Command, Event
from klarm.version import __version__

_FLOATS = frozenset((float,))


class Evaluator:
    """Evaluates one step after another. It does not depend on journal, console or trainer."""

    def __init__(
        self,
        detectors: Iterable[Detector],
        rules: IncidentRules,
        *,
        ids: NewId = new_id,
        framework: str = "",
        on_failure: Callable[[str, Exception], object] = lambda *_: None,
    ) -> None:
        """Prepare the detectors. If one raises, `on_failure` gets its name; the others go on.

        `framework` is that of the run, which may have advice in words of its own.
        """
        self.detectors = list(detectors)
        self._on_failure = on_failure
        self._rules = rules
        self._framework = framework if advice_of(framework).detectors else ""
        self.tracker = Tracker(self.detectors, rules, ids=ids, advice=advice_of(framework))
        self._origins: dict[str, Origin] = {}  # by metric name, as passed to detectors
        self._active: list[Detector] = []  # enabled, and able to judge what this run logs
        self._running: list[Detector] = []  # the active ones for which any metric is logged
        self._held = HeldValues()
        self.bind({})

    def bind(self, origins: Mapping[str, Origin]) -> dict[str, Origin]:
        """Tell detectors from which key each metric is read; return what to record of that.

        A key that equals the metric's name, without a known kind, is the default. It is recorded
        only if it was different before.
        """
        known = self._origins
        new = {name: origin for name, origin in origins.items() if known.get(name) != origin}
        recording = {n: origin for n, origin in new.items() if known.get(n, Origin(n)) != origin}
        known.update(new)
        if new:
            self.tracker.own_keys = own_keys(known)
        for detector in self.detectors:
            if detector.watches[0] in new:
                detector.bound(*new[detector.watches[0]])
        self._active = [d for d in self.detectors if d.enabled and not d.idle_because]
        self._set_running(
            d for d in self._active if d.watches_all or not origins.keys().isdisjoint(d.watches)
        )
        return recording

    @property
    def judged(self) -> set[str]:
        """The metrics that detectors judge. Noticing that a metric is missing is not judging."""
        return {name for d in self._active if not d.watches_all for name in d.watches}

    def look(
        self, step: int, values: Mapping[str, float], *, late: int | None = None
    ) -> tuple[list[Alert], Sequence[Change]]:
        """Return the alerts of a step, and the changes of incidents that follow.

        `late` is the earlier step that these values belong to, if they arrived during this one.
        """
        news = self._held.news(values)
        alerts = self._alerts(step, values, news)
        if alerts:
            alerts = _deduplicated([_plain(alert, self._framework) for alert in alerts])
        counting = alerts
        if alerts and news is not values:
            known = {detector.name: detector for detector in self._running}
            counting = [alert for alert in alerts if known[alert.detector].looks_at(news)]
        same_batch = self._held.same_batch
        changes = self.tracker.update(step, news, counting, same_batch=same_batch, late=late)
        return alerts, changes

    def rebuild(
        self,
        history: Iterable[History],
        recorded: Sequence[IncidentRecord],
        step: int,
        *,
        undone: bool = True,
        restored: bool = False,
    ) -> list[Event]:
        """Roll back to just before a step; return events that correct what was reported earlier.

        `recorded` are the incidents in the journal. `undone` says whether rows at or after the
        step are rolled back. `restored` says that a snapshot was restored, and that the history
        begins after it.
        """
        tracker = self.tracker
        if not restored:
            self._reset()
        tracker.recall(recorded)
        running = self._running
        self._set_running(self._active)  # earlier rows may have metrics that were not logged since
        ends = tracker.ends  # the last events of incidents that the snapshot has as resolved
        changes: Sequence[Change]
        for entry in history:
            if isinstance(entry, Resume):
                changes = tracker.end_step()
                tracker.forget_recoveries()
            elif isinstance(entry, Command):
                changes = tracker.apply(entry, entry.step or 0)
            else:
                at, values = entry[:2]  # a late row is judged with the step during which it arrived
                if at >= step:
                    continue
                late = entry.late if isinstance(entry, LateRow) else None
                _, changes = self.look(at, values, late=late)
            _note_ends(changes, ends)
        self._set_running(running)
        _note_ends(tracker.end_step(), ends)  # the last step is complete as well
        return tracker.reconcile(step, recorded, ends, undone=undone)

    @property
    def active(self) -> list[str]:
        """The names of the active detectors."""
        return [detector.name for detector in self._active]

    @cached_property
    def fingerprint(self) -> str:
        """A hash of everything but the rows that determines the state: settings and code."""
        detectors = [
            (class_name(type(d)), type(d).state_version, vars(type(d)).get("constants"), settings)
            for d in self.detectors
            if (settings := {name: getattr(d, name) for name in settings_of(type(d))})
        ]
        depends = (__version__, vars(self._rules), detectors)
        return hashlib.sha256(repr(depends).encode("utf-8", "replace")).hexdigest()

    def capture(self) -> dict[str, Any]:
        """Return the state of detectors and incidents; raise UnfitError if it cannot be captured.

        `restore` accepts it, in this process or in another.
        """
        return Capture(self._parts).data

    def restore(self, data: Mapping[str, Any]) -> None:
        """Restore captured state, or raise UnfitError and reset everything."""
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

    def _set_running(self, detectors: Iterable[Detector]) -> None:
        """Pass every step to these detectors from now on."""
        self._running = list(detectors)
        self._updates = [(d.update, d.counts_held_values, d.name) for d in self._running]

    def _alerts(
        self, step: int, values: Mapping[str, float], news: Mapping[str, float]
    ) -> list[Alert]:
        """Return the alerts of a row; most detectors do not see values that are only held."""
        alerts: list[Alert] = []
        for update, counts_held_values, name in self._updates:
            try:
                alert = update(step, values if counts_held_values else news)
            except Exception as error:
                if boundary.raise_failures:
                    raise
                self._on_failure(name, error)
                continue
            if alert is not None:
                alerts.append(alert)
        return alerts


def _note_ends(changes: Iterable[Change], ends: dict[str, Event]) -> None:
    for change in changes:
        if isinstance(change, Event):
            if change.event == "resolved":
                ends[change.id] = change
            else:
                ends.pop(change.id, None)  # the incident has reopened


def _deduplicated(alerts: list[Alert]) -> list[Alert]:
    """Drop duplicates: every detector of a metric reports a value that is not finite."""
    broken: set[str] = set()
    kept = []
    for alert in alerts:
        if alert.worse != "not_finite" or alert.metric not in broken:
            kept.append(alert)
        if alert.worse == "not_finite":
            broken.add(alert.metric)
    return kept


def _plain(alert: Alert, framework: str) -> Alert:
    """Return an alert of floats and safe text, whatever a detector put into it.

    A detector written by the user may compute with ints, numpy or torch. Values that are neither
    numbers nor text are left out.
    """
    if not _FLOATS.issuperset(map(type, alert.metrics.values())):
        metrics: dict[str, float | str] = {}
        for name, value in alert.metrics.items():
            known = clean(value) if isinstance(value, str) else to_number(value)
            if known is not None:
                metrics[clean(name)] = known
        alert = replace(alert, metrics=metrics)
    return replace(alert, framework=framework) if framework else alert
