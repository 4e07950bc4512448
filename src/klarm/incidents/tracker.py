"""The tracker: the only owner of incidents, which it opens, changes and ends row by row.

No limit suppresses alerts, and an earlier warning never holds back a critical alert.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from msgspec.structs import replace

from klarm.detectors import Detector
from klarm.incidents.checkpoints import (
    Broken,
    Checkpoints,
    Saved,
    Span,
    unsafe_since,
    unsafe_spans,
    with_first_unsafe_step,
)
from klarm.incidents.corrections import Place, corrections, known_identities
from klarm.incidents.crash import SIGNAL, crash_event
from klarm.incidents.dates import Dates, Said
from klarm.incidents.diagnosis import diagnosis_of
from klarm.incidents.episode import Episode
from klarm.incidents.evidence import Evidence
from klarm.incidents.excuse import KL, PROBED, kl_budgets
from klarm.incidents.playbook import with_remedy_of_a_single_value
from klarm.incidents.recent_rows import RecentRows
from klarm.incidents.rules import IncidentRules
from klarm.incidents.signal_tracker import Identity, SignalTracker
from klarm.journal import IncidentRecord, NewId, new_id
from klarm.metrics import Advice
from klarm.text import clean_line
from klarm.types import Action, Alert, Blip, Command, Event, Incident, Reason

# How many past incidents are kept in memory; the journal has all of them.
_MAX_PAST = 1_000

Change = Event | Blip


class Tracker:
    """Follows all signals of a run and returns what changed.

    The same rows and commands give the same result, live and in a replay.
    """

    def __init__(
        self,
        detectors: Iterable[Detector],
        rules: IncidentRules,
        *,
        ids: NewId = new_id,
        advice: Advice = Advice(),  # noqa: B008  # it cannot be changed
    ) -> None:
        self._detectors = [detector for detector in detectors if detector.enabled]
        self._signal_of = {detector.name: detector.signal for detector in self._detectors}
        self._new_id = ids
        self._advice = advice
        self.own_keys: Mapping[str, str] = {}  # what the user calls metrics
        self._last_number = 0
        # The identities of incidents in a journal whose rows are processed again.
        self._known: dict[Place, Identity] = {}
        self.recent = RecentRows(name for detector in self._detectors for name in detector.watches)
        self.checkpoints = Checkpoints()
        budgets = kl_budgets(self._detectors)
        self._evidence = Evidence(self.recent, budgets[KL], self._has_any, budgets[PROBED])
        self._signals = {
            signal: SignalTracker(
                signal,
                [detector for detector in self._detectors if detector.signal == signal],
                rules,
                self.recent,
                self._evidence,
                identify=self._identify,
                archive=self._archive,
            )
            for signal in dict.fromkeys(self._signal_of.values())
        }
        self.reset()

    def reset(self) -> None:
        """Forget everything except which numbers have been used."""
        self._past: deque[Episode] = deque(maxlen=_MAX_PAST)
        self._step: int | None = None  # the current step, which may come in several dicts
        self._said = Said()  # what messages have said while incidents were open
        self._busy: list[SignalTracker] = []  # those whose rows without an alert must be counted
        self.recent.clear()
        self._evidence.reset()
        for signal in self._signals.values():
            signal.reset()

    @property
    def parts(self) -> dict[str, object]:
        """The objects that hold the state for a snapshot, by name."""
        signals = {f"signal {name}": signal for name, signal in self._signals.items()}
        own = {"tracker": self, "recent": self.recent, "evidence": self._evidence}
        return {**own, **signals, **{f"detector {d.name}": d for d in self._detectors}}

    @property
    def ends(self) -> dict[str, Event]:
        """The last events of resolved incidents, by id."""
        over = [episode for episode in self._past if episode.incident.state == "resolved"]
        return {episode.incident.id: episode.end for episode in over if episode.end is not None}

    @contextmanager
    def keeping_what_stays(self) -> Iterator[None]:
        """Keep the checkpoints and the used numbers while a snapshot is restored."""
        last, saved = self._last_number, self.checkpoints.saved
        try:
            yield
        finally:
            self._last_number = max(last, self._last_number)
            self.checkpoints.recall(saved)

    @property
    def incidents(self) -> list[Incident]:
        """The resolved incidents, then the others."""
        current = [
            episode.incident
            for signal in tuple(self._signals.values())
            for episode in (signal.episode, signal.pending)
            if episode is not None
        ]
        past = [episode.incident for episode in tuple(self._past)]
        return [*(incident for incident in past if incident.state == "resolved"), *current]

    def has_open(self, signal: str) -> bool:
        """Return whether an incident on a signal is open and has not settled."""
        tracker = self._signals.get(signal)
        episode = None if tracker is None else tracker.episode
        return episode is not None and episode.incident.state == "open"

    @property
    def excused(self) -> Mapping[str, int]:
        """The number of alerts that other signals excused, by detector."""
        return self._evidence.excused

    @property
    def critical(self) -> list[Incident]:
        """The incidents that are open and critical."""
        return [i for i in self.incidents if i.is_open and i.severity == "critical"]

    def update(
        self,
        step: int,
        values: Mapping[str, float],
        alerts: Sequence[Alert],
        *,
        same_batch: bool = False,
        late: int | None = None,
    ) -> list[Change]:
        """Add the values and alerts of a step; return what changed.

        `same_batch` says that the step has the same samples as the one before, so that its alerts
        confirm nothing, and `late` that its values belong to an earlier step. Whether a signal was
        quiet is only known when the step has ended, so that change is returned with the next step.
        """
        changes = self._end_step() if self._busy and step != self._step else []
        self._step = step
        self.recent.add(step, values)
        self._evidence.update(step, values)
        if alerts or self._busy:
            by_signal: dict[str, list[Alert]] = {}
            for alert in alerts:
                by_signal.setdefault(self._signal_of[alert.detector], []).append(alert)
            for name, its_alerts in by_signal.items():
                changes += self._signals[name].alarm(
                    step, its_alerts, same_batch=same_batch, late=late
                )
            for name in by_signal:
                if self._signals[name] not in self._busy:
                    self._busy = sorted([*self._busy, self._signals[name]], key=_name)
            self._busy = [signal for signal in self._busy if signal.busy]
            for signal in self._busy:
                signal.look(values)
        return [self._completed(change) for change in changes] if changes else changes

    def end_step(self) -> list[Change]:
        """End the current step; return what changed because it had no alert."""
        return [self._completed(change) for change in self._end_step()]

    def apply(self, command: Command, step: int) -> list[Change]:
        """Apply the command of a person. The incident may have ended in the meantime."""
        signal = self._signal_with(command.incident)
        if signal is None or command.command not in ("close", "accept"):
            return []
        changes = self.end_step()
        if signal.episode is None or signal.episode.incident.id != command.incident:
            return changes  # it has just ended
        accept = command.command == "accept"
        incident = signal.episode.incident
        since = incident.last_alert + 1 if incident.state == "settled" else incident.opened
        changes += signal.close(step, command.by, accept=accept)
        if accept:
            rows = self.recent.since(since or 0)
            for detector in self._detectors:
                if detector.signal == incident.signal:
                    detector.relearn(rows)
        return changes

    def finish(self, reason: Reason = "finished") -> list[Change]:
        """End the run. Open incidents end with it, unresolved."""
        changes = self.end_step()
        step = self._step or 0
        ended = [e for signal in self._signals.values() for e in signal.finish(step, reason)]
        ended.sort(key=lambda event: event.incident)
        return [*changes, *map(self._completed, ended)]

    def crashed(self, step: int, error: str) -> Event:
        """Return the event that notifies people that an exception ended the run."""
        id_, number, _ = self._identify(SIGNAL, step, step)
        good = self.checkpoints.last_before(step + 1, self._unsafe_spans(), lambda _: True)
        checkpoint = "" if good is None else clean_line(good[1])
        return crash_event(step, error, id_, number, checkpoint)

    def recall(self, recorded: Iterable[IncidentRecord]) -> None:
        """Note the incidents of a journal before its rows are processed again.

        An incident of a snapshot has a different id now if it was opened again since.
        """
        recorded = list(recorded)
        self._known = known_identities(recorded)
        numbers = (record.number for record in recorded)
        self._last_number = max(self._last_number, *numbers, 0)
        for episode in self._opened_episodes():
            incident = episode.incident
            place = (incident.signal, incident.started, incident.opened or 0)
            if place in self._known:
                incident.id, incident.number, incident.follows = self._known[place]

    def forget_recoveries(self) -> None:
        """Do not reopen resolved incidents: after a rollback, the same problem is a new one."""
        for signal in self._signals.values():
            signal.forget_recovery()

    def reconcile(
        self,
        step: int,
        recorded: Iterable[IncidentRecord],
        ends: Mapping[str, Event],
        *,
        undone: bool,
    ) -> list[Event]:
        """Return the events that correct the recorded incidents after a rollback or a crash.

        `ends` has the ends of incidents from processing their rows again; `undone` says that some
        rows no longer count.
        """
        self._known = {}
        if undone:
            self.forget_recoveries()
        current = {
            signal.episode.incident.id: signal
            for signal in self._signals.values()
            if signal.episode is not None
        }
        news = corrections(step, recorded, current, ends, undone=undone, renew=self._renew)
        # A replay does not get here, so these events leave no trace in what is said later.
        return [self._complete(event, self._said.copy()) for event in news]

    def last_good_checkpoint(
        self, incident: Incident | Event, is_good: Callable[[str], bool] = lambda _: True
    ) -> Saved | None:
        """Return step and path of the last good checkpoint before an incident."""
        return self.checkpoints.last_before(unsafe_since(incident), self._unsafe_spans(), is_good)

    def _unsafe_spans(self) -> list[Span]:
        opened = (incident for incident in self.incidents if incident.opened is not None)
        return unsafe_spans(map(Broken.of, opened))

    def _end_step(self) -> list[Change]:
        changes: list[Change] = []
        for signal in self._busy:
            changes += signal.end_row(self._step or 0)
        return changes

    def _identify(self, signal: str, started: int, opened: int) -> Identity:
        known = self._known.get((signal, started, opened))
        if known is not None:
            return known
        self._last_number += 1
        return self._new_id(signal, started, opened), self._last_number, ""

    def _renew(self, incident: Incident, step: int, follows: str) -> None:
        """Give an incident a new identity, so that people are notified of it again."""
        self._last_number += 1
        incident.id = self._new_id(incident.signal, incident.started, step)
        incident.number, incident.follows = self._last_number, follows

    def _archive(self, episode: Episode) -> None:
        kept = [other for other in self._past if other is not episode]  # it may have been reopened
        self._past = deque([*kept, episode], maxlen=_MAX_PAST)

    def _opened_episodes(self) -> list[Episode]:
        current = [signal.episode for signal in self._signals.values()]
        return [*self._past, *(episode for episode in current if episode is not None)]

    def _has_any(self, signal: str) -> bool:
        tracker = self._signals.get(signal)
        return tracker is not None and tracker.episode is not None

    def _signal_with(self, id_: str) -> SignalTracker | None:
        for signal in self._signals.values():
            if signal.episode is not None and signal.episode.incident.id == id_:
                return signal
        return None

    def _completed(self, change: Change) -> Change:
        return self._complete(change, self._said) if isinstance(change, Event) else change

    def _complete(self, event: Event, said: Said) -> Event:
        """Add to an opened or escalated incident what else moved, and the last good checkpoint."""
        current = [signal.episode for signal in self._signals.values()]
        others = [e for e in current if e is not None and e.incident.id != event.id]
        if event.event == "ended":
            event = with_first_unsafe_step(event, (other.incident for other in others))
        if event.event not in ("opened", "escalated"):
            return self._with_remedy(event)
        episode = self._signals[event.signal].episode
        if episode is None or episode.incident.id != event.id:
            return event
        if event.event == "opened" and not others:
            said.clear()  # what was said was said of an earlier episode
        event = diagnosis_of(
            event,
            episode.incident,
            self._detectors,
            self.recent,
            advice=self._advice,
            keys=self.own_keys,
            dates=Dates.of([(other.incident, other.shown_before) for other in others], said),
        )
        event = _with_known_cause(event, episode.diagnosed)
        event = episode.in_hindsight(event, self.recent)
        event = with_first_unsafe_step(event, (other.incident for other in others))
        if event.follows:
            numbers = {e.incident.id: e.incident.number for e in self._past}
            event = replace(event, follows_number=numbers.get(event.follows))
        good = self.last_good_checkpoint(event)
        event = event if good is None else replace(event, checkpoint=clean_line(good[1]))
        episode.diagnosed = event if event.pattern else episode.diagnosed
        return self._with_remedy(event)

    def _with_remedy(self, event: Event) -> Event:
        """Return an event whose remedy names the step before which checkpoints are safe."""
        event = with_remedy_of_a_single_value(event, self.recent)
        if "{before}" not in event.remedy:
            return event
        remedy = event.remedy.replace("{before}", f"from before step {unsafe_since(event)}")
        action: Action = "go_back_before_step" if event.action == "go_back" else event.action
        return replace(event, remedy=remedy, action=action)


def _with_known_cause(event: Event, diagnosed: Event | None) -> Event:
    """Return an escalation that no pattern fits with the cause that was named before.

    What to do is the recommendation of its own alert, which knows how bad it has become, unless the
    same trouble has only grown.
    """
    if event.pattern or diagnosed is None or event.event != "escalated":
        return event
    remedy = diagnosed.remedy if event.reason == "far_worse" else ""
    action: Action = diagnosed.action if remedy else ""
    return replace(
        event, pattern=diagnosed.pattern, cause=diagnosed.cause, remedy=remedy, action=action
    )


def _name(signal: SignalTracker) -> str:
    return signal.name
