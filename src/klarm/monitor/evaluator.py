"""The watch over a run: its detectors, what their alerts amount to, and how to go back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf

from msgspec.structs import replace

from klarm.detectors import Detector, KLBudgetDetector
from klarm.incidents import Direction, IncidentRules, Incidents, RecentRows, Recoveries, diagnosed
from klarm.journal import History
from klarm.metrics import Origin
from klarm.types import Alert, Blip, Event, Incident

_Update = Callable[[int, Mapping[str, float]], Alert | None]


class Watch:
    """Looks at one step after the other; knows nothing of journals, consoles and trainers.

    What it returns as changes of incidents counts as told.
    """

    def __init__(self, detectors: Iterable[Detector], rules: IncidentRules) -> None:
        self.detectors = list(detectors)
        self._incidents = Incidents(self.detectors, rules)
        self._recent = RecentRows()
        self._recoveries = Recoveries(self.detectors, self._recent)
        self._origins: dict[str, Origin] = {}  # by canonical name, as detectors were told
        self._active: list[Detector] = []  # on, and able to judge what this run logs
        self._updates: list[_Update] = []  # of those for which anything is logged at all
        self.bind({})

    @property
    def incidents(self) -> list[Incident]:
        """Those that are over, then those that are not."""
        return [*self._incidents.past, *self._incidents.current.values()]

    @property
    def critical(self) -> list[Incident]:
        """Those that are open and critical now."""
        current = self._incidents.current.values()
        return [i for i in current if i.state == "open" and i.severity == "critical"]

    def spoilt(self) -> list[tuple[int, int | None]]:
        """Return from which step to which the run was broken: what was saved there is no good."""
        found = []
        for incident in self.incidents:
            if incident.opened is not None and incident.severity == "critical":
                lasts = not incident.recovered and self._recoveries.lasts(incident)
                first = incident.started if incident.onset is None else incident.onset
                found.append((first, None if lasts else incident.ended))
        return found

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
        self._updates = [
            detector.update
            for detector in self._active
            if detector.watches_all or not origins.keys().isdisjoint(detector.watches)
        ]
        return recording

    def look(
        self, step: int, values: Mapping[str, float]
    ) -> tuple[list[Alert], Sequence[Event | Blip]]:
        """Return what the detectors say of a step, and what that changes."""
        self._recent.add(step, values)
        alerts = _ask(self._updates, step, values)
        changes: Sequence[Event | Blip] = self._incidents.update(step, values, alerts)
        return alerts, self._tell(changes) if changes else changes

    def settle(self) -> list[Event | Blip]:
        """End the step under way; return what changed because nothing was said in it."""
        return self._tell(self._incidents.settle())

    def rebuild(self, history: History, step: int) -> list[Event | Blip]:
        """Go back to just before a step; return what makes true again what was told."""
        for detector in self._active:
            detector.reset()
        self._incidents.reset()
        self._recent.clear()
        self._recoveries.clear()
        self._incidents.recall(history.events)
        updates = [detector.update for detector in self._active]
        ends: dict[int, Event] = {}
        for earlier, values in history.rows:
            if earlier < step:
                self._recent.add(earlier, values)
                alerts = _ask(updates, earlier, values)
                self._note(self._incidents.update(earlier, values, alerts), ends)
        self._note(self._incidents.settle(), ends)  # the last step is over too
        return self._tell(self._incidents.reconcile(step, ends))

    def _note(self, changes: Sequence[Event | Blip], ends: dict[int, Event]) -> None:
        """Follow what happened before, and keep how incidents ended."""
        for change in changes:
            if isinstance(change, Event):
                event = self._followed(change)
                if event.event == "resolved":
                    ends[event.incident] = event

    def _tell(self, changes: Sequence[Event | Blip]) -> list[Event | Blip]:
        """Add to what opened or escalated what else moved, and note what is being told."""
        told: list[Event | Blip] = []
        for change in changes:
            if isinstance(change, Event):
                event = self._followed(change)
                if event.event != "resolved":
                    event = self._diagnosed(event)
                self._incidents.recall([event])
                told.append(event)
            else:
                told.append(change)
        return told

    def _followed(self, change: Event) -> Event:
        event = self._recoveries.follow(change)
        if not event.recovered:
            self._incidents.note_unrecovered(event.incident)
        return event

    def _diagnosed(self, event: Event) -> Event:
        incident = self._incidents.current[event.signal]
        went: Direction = "up" if incident.worse == "higher" else "down"
        own = {d.measures: went for d in self._active if d.name in event.detectors}
        budgets = [d.budget_nats for d in self._active if isinstance(d, KLBudgetDetector)]
        movements = self._recent.movements()
        left = [m.step for m in movements if m.metric in own and m.direction in (went, "broken")]
        known = [] if incident.onset is None else [incident.onset]
        incident.onset = min([event.started, *known, *left])
        event = replace(event, onset=incident.onset)
        return diagnosed(event, movements, own, min(budgets, default=inf))


def _ask(updates: Iterable[_Update], step: int, values: Mapping[str, float]) -> list[Alert]:
    alerts = [alert for update in updates if (alert := update(step, values)) is not None]
    if len(alerts) > 1:
        # Every detector of a metric says that it is not finite; once is enough.
        alerts = list({alert.message: alert for alert in reversed(alerts)}.values())[::-1]
    return alerts
