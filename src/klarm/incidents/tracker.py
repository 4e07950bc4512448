"""Incidents: what the alerts of one signal, step after step, amount to.

An alert makes its signal's incident pending. It opens when the signal has been in alert for
`confirm_steps` steps in a row, or at once when an alert is decisive; it escalates when the
severity rises, or long after it was told, when it has become far worse; it is resolved after
`resolve_after` quiet steps. Counted are the steps at which a
detector of the signal had something to look at. Nothing is capped: every alert counts, and a
critical one is never held back by a warning before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite, isnan

import msgspec

from klarm.detectors import Detector
from klarm.metrics import METRICS
from klarm.settings import check_settings, setting
from klarm.types import (
    GRAVER,
    ROLLED_BACK,
    SEVERITIES,
    Alert,
    Blip,
    Event,
    EventKind,
    Incident,
    Worse,
)

# What is kept in memory of incidents that are over; the journal has them all.
_MOST_KEPT = 1_000
# It does once more when its peak is so many times as bad as the one last told, if that is so many
# steps ago: who knew of it then does not know of this. In between, an explosion is one explosion.
_FAR_WORSE = 10.0
_LONG_AGO_STEPS = 50
# What is said when it opens is not said again when it is over.
_UNDIAGNOSED = {"moved": "", "pattern": "", "cause": "", "remedy": ""}


@dataclass(kw_only=True)
class IncidentRules:
    """When an incident opens and when it is resolved, for detectors that do not say otherwise."""

    confirm_steps: int = setting(5, "steps in alert in a row that open an incident", at_least=1)
    resolve_after: int = setting(20, "quiet steps in a row that resolve it", at_least=1)

    def __post_init__(self) -> None:
        check_settings(self, "incidents")


class Incidents:
    """Follows every signal of a run and says what changed."""

    def __init__(self, detectors: Iterable[Detector], rules: IncidentRules) -> None:
        active = [detector for detector in detectors if detector.enabled]
        self._signals = {detector.name: detector.signal for detector in active}
        self._detectors = active
        self._metrics = {detector.name: detector.measures for detector in active}
        self._confirm = {d.name: d.confirm_steps or rules.confirm_steps for d in active}
        self._resolve = {d.name: d.resolve_after or rules.resolve_after for d in active}
        self._ids: dict[tuple[str, int], int] = {}  # (signal, first step) -> id
        self._last_id = 0
        # Whose peak is a count of steps: that grows by itself.
        self._counting = {detector.name for detector in active if detector.watches_all}
        self._announced: dict[int, Event] = {}  # open as far as anybody was told
        self.reset()

    def reset(self) -> None:
        """Forget what happened, but neither the ids that were given nor what was told."""
        self.current: dict[str, Incident] = {}  # the one of each signal, if it has one
        self.past: list[Incident] = []  # resolved
        self._step: int | None = None  # the step under way: several dicts may make up one
        self._looked: set[str] = set()  # signals that had something to look at in it
        self._alarmed: set[str] = set()  # and those that were alarmed about
        self._in_alert: dict[str, int] = {}  # steps in a row
        self._quiet: dict[str, int] = {}
        self._told: dict[str, tuple[float, int]] = {}  # the peak last told, and steps since

    def update(
        self, step: int, values: Mapping[str, float], alerts: Sequence[Alert]
    ) -> list[Event | Blip]:
        """Take in what was logged at a step and what the detectors said of it; return what changed.

        Whether a signal was quiet is known when the step is over, so it is told with the next.
        """
        if not alerts and not self.current:
            return []
        changes = self.settle() if step != self._step else []
        self._step = step
        self._looked.update(d.signal for d in self._detectors if d.looks_at(values))
        spoken: dict[str, list[Alert]] = {}
        for alert in alerts:
            spoken.setdefault(self._signals[alert.detector], []).append(alert)
        changes += [
            event
            for signal, said in spoken.items()
            if (event := self._alarm(step, signal, said)) is not None
        ]
        return changes

    def settle(self) -> list[Event | Blip]:
        """End the step under way; return what changed because nothing was said in it."""
        quiet = self._looked - self._alarmed
        self._looked, self._alarmed = set(), set()
        return [
            change
            for signal in sorted(quiet & self.current.keys())
            if (change := self._calm(self._step or 0, signal)) is not None
        ]

    def recall(self, events: Iterable[Event]) -> None:
        """Note what was told, now or by an earlier process."""
        for event in events:
            place = (event.signal, event.started)
            self._last_id = max(self._last_id, event.incident)
            if event.event == "resolved":
                self._announced.pop(event.incident, None)
                if event.reason == ROLLED_BACK:
                    self._ids.pop(place, None)
            else:
                self._announced[event.incident] = event
                self._ids[place] = event.incident

    def reconcile(self, step: int, ends: Mapping[int, Event]) -> list[Event]:
        """Return what must be told after a rollback or a crash, so that what was told is true.

        `ends` is how incidents ended that are over by now: nobody may have been told.
        """
        now = {incident.id: incident for incident in self.current.values() if incident.id}
        # One that is undone and comes again is another one: what was told of it does not count.
        known = now.keys() | {incident.id for incident in self.past}
        self._ids = {place: id_ for place, id_ in self._ids.items() if id_ in known}
        untold = [
            ends[id_] if id_ in ends else _undone(event, step)
            for id_, event in self._announced.items()
            if id_ not in now
        ]
        for id_, incident in now.items():
            told = self._announced.get(id_)
            if told is None:
                self._ids.pop((incident.signal, incident.started), None)
                untold.append(self._open(incident, step, "open again after a rollback"))
            elif SEVERITIES.index(incident.severity) > SEVERITIES.index(told.severity):
                untold.append(self._tell("escalated", incident, step, GRAVER))
        return untold

    def note_unrecovered(self, id_: int) -> None:
        """Note of an incident that is over that its metric is not back."""
        for incident in self.past:
            if incident.id == id_:
                incident.recovered = False

    def _alarm(self, step: int, signal: str, alerts: list[Alert]) -> Event | None:
        self._quiet[signal] = 0
        if signal not in self._alarmed:
            self._alarmed.add(signal)
            self._count_step(signal)
            self._in_alert[signal] = self._in_alert.get(signal, 0) + 1
        in_alert = self._in_alert[signal]
        incident = self.current.get(signal)
        before = incident.severity if incident is not None else None
        for alert in alerts:
            incident = self.current[signal] = self._add(incident, signal, alert)
        incident = self.current[signal]
        if incident.state == "open":
            if incident.severity != before:
                return self._tell("escalated", incident, step, GRAVER)
            return self._tell_far_worse(incident, step, alerts)
        latest = [alert for alert in alerts if alert.severity == incident.severity]
        for alert in sorted(latest, key=lambda alert: not alert.decisive)[:1]:
            incident.worst = alert  # with the numbers of now
        for alert in alerts:
            if alert.decisive:
                return self._open(incident, step, _why_decisive(alert))
        if in_alert >= min(self._confirm[alert.detector] for alert in alerts):
            steps = "step" if in_alert == 1 else "steps"
            return self._open(incident, step, f"in alert for {in_alert} {steps}")
        return None

    def _calm(self, step: int, signal: str) -> Event | Blip | None:
        self._in_alert[signal] = 0
        self._count_step(signal)
        incident = self.current[signal]
        if incident.state == "pending":
            del self.current[signal]
            return Blip(
                signal=signal,
                severity=incident.severity,
                started=incident.started,
                step=step,
                detectors=list(incident.detectors),
                peak=incident.peak,
            )
        quiet = self._quiet[signal] = self._quiet[signal] + 1
        if quiet < max(self._resolve[name] for name in incident.detectors):
            return None
        incident.state, incident.ended = "resolved", step
        del self.current[signal]
        self.past = [*self.past[-_MOST_KEPT:], incident]
        return self._tell("resolved", incident, step, f"{quiet} quiet steps")

    def _add(self, incident: Incident | None, signal: str, alert: Alert) -> Incident:
        value = alert.metrics.get(self._metrics[alert.detector])
        peak = value if isinstance(value, float) else 0.0
        if incident is None:
            return Incident(
                signal=signal,
                started=alert.step,
                state="pending",
                severity=alert.severity,
                detectors=[alert.detector],
                alerts=1,
                last_alert=alert.step,
                worst=alert,
                peak=peak,
                worse=alert.worse,
            )
        incident.alerts += 1
        incident.last_alert = alert.step
        # The peak is of the metric that began it: detectors of one signal may watch several.
        graver = SEVERITIES.index(alert.severity) > SEVERITIES.index(incident.severity)
        began = self._metrics[incident.detectors[0]]
        if value is not None and self._metrics[alert.detector] == began:
            if graver and alert.worse != incident.worse:  # the other end is the trouble now
                incident.peak, incident.worse = peak, alert.worse
            elif _is_worse(peak, incident.peak, incident.worse):
                incident.peak = peak
        if alert.detector not in incident.detectors:
            incident.detectors.append(alert.detector)
        if graver:
            incident.severity, incident.worst = alert.severity, alert
        return incident

    def _open(self, incident: Incident, step: int, reason: str) -> Event:
        place = (incident.signal, incident.started)
        incident.id = self._ids.get(place) or self._last_id + 1
        self._last_id = max(self._last_id, incident.id)
        incident.state, incident.opened = "open", step
        return self._tell("opened", incident, step, reason)

    def _tell_far_worse(self, incident: Incident, step: int, alerts: list[Alert]) -> Event | None:
        peak, steps = self._told[incident.signal]
        if incident.detectors[0] in self._counting or steps < _LONG_AGO_STEPS:
            return None
        if not _is_far_worse(incident.peak, peak, incident.worse):
            return None
        as_bad = [alert for alert in alerts if alert.severity == incident.severity]
        incident.worst = as_bad[0] if as_bad else incident.worst
        reason = f"the peak is {incident.peak:.3g}; when it was last told, it was {peak:.3g}"
        return self._tell("escalated", incident, step, reason)

    def _count_step(self, signal: str) -> None:
        if signal in self._told:
            peak, steps = self._told[signal]
            self._told[signal] = peak, steps + 1

    def _tell(self, kind: EventKind, incident: Incident, step: int, reason: str) -> Event:
        self._told[incident.signal] = incident.peak, 0
        return Event(
            event=kind,
            incident=incident.id,
            signal=incident.signal,
            severity=incident.severity,
            step=step,
            started=incident.started,
            detectors=list(incident.detectors),
            peak=incident.peak,
            reason=reason,
            message=incident.worst.message,
            recommendation=incident.worst.recommendation,
        )


def _undone(event: Event, step: int) -> Event:
    return msgspec.structs.replace(
        event, event="resolved", step=step, reason=ROLLED_BACK, **_UNDIAGNOSED
    )


def _is_worse(value: float, than: float, worse: Worse) -> bool:
    """Compare two values; one that is not finite is worse than any that is, NaN worst of all."""
    if isfinite(value) and isfinite(than):
        return value > than if worse == "higher" else value < than
    return isfinite(than) or isnan(value)


def _is_far_worse(value: float, than: float, worse: Worse) -> bool:
    """Compare in proportion, which has a meaning for positive values only."""
    low, high = (than, value) if worse == "higher" else (value, than)
    return 0.0 < low * _FAR_WORSE <= high < inf


def _why_decisive(alert: Alert) -> str:
    values = [value for name, value in alert.metrics.items() if name in METRICS]
    if any(isinstance(value, float) and not isfinite(value) for value in values):
        return "a value that is not finite"
    return f"{alert.detector} has confirmed it by itself"
