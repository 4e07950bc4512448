"""The tracker: the one owner of incidents. What alerts amount to, row after row, is decided here.

Nothing is capped: every alert counts, and a critical one is never held back by a warning before it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from msgspec.structs import replace

from klarm.detectors import Detector
from klarm.incidents.checkpoints import Checkpoints, Saved, Span
from klarm.incidents.episode import Episode
from klarm.incidents.evidence import Evidence
from klarm.incidents.excuse import KL, PROBED, kl_budgets
from klarm.incidents.playbook import diagnosed
from klarm.incidents.rules import IncidentRules
from klarm.incidents.signal_tracker import Identity, SignalTracker
from klarm.incidents.trends import Direction, RecentRows, summary
from klarm.journal import IncidentRecord, NewId, new_id
from klarm.text import clean_line
from klarm.types import SEVERITIES, Alert, Blip, Command, Event, Incident, Reason

# What is kept in memory of incidents that are over; the journal has them all.
_MAX_PAST = 1_000
_REWARD = "reward"  # the signal
# What goes wrong within so many rows was wrong from the start.
_EARLY_ROWS = 30
_EARLY_MEDIAN, _ENTROPY_FACTOR = 3, 2.0

Change = Event | Blip
_Place = tuple[str, int, int]  # of an incident: signal, first step, step of opening


class Tracker:
    """Follows every signal of a run and says what changed.

    Fed with the same rows and commands it says the same, live and in a replay.
    """

    def __init__(
        self, detectors: Iterable[Detector], rules: IncidentRules, *, ids: NewId = new_id
    ) -> None:
        self._detectors = [detector for detector in detectors if detector.enabled]
        self._signal_of = {detector.name: detector.signal for detector in self._detectors}
        self._new_id = ids
        self._last_number = 0
        # Ids and numbers in a journal that is gone through again, and what they follow.
        self._known: dict[_Place, Identity] = {}
        self.recent = RecentRows(name for detector in self._detectors for name in detector.watches)
        self.checkpoints = Checkpoints()
        self._budgets = kl_budgets(self._detectors)
        self._evidence = Evidence(
            self.recent, self._budgets[KL], self._has_any, self._budgets[PROBED]
        )
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
        """Forget what happened, but not which numbers were given."""
        self._past: deque[Episode] = deque(maxlen=_MAX_PAST)
        self._step: int | None = None  # the step under way: several dicts may make up one
        self._busy: list[SignalTracker] = []  # those whose quiet rows must be counted
        self.recent.clear()
        self._evidence.reset()
        for signal in self._signals.values():
            signal.reset()

    @property
    def parts(self) -> dict[str, object]:
        """The objects that hold what happened, by name: for a snapshot."""
        signals = {f"signal {name}": signal for name, signal in self._signals.items()}
        own = {"tracker": self, "recent": self.recent, "evidence": self._evidence}
        return {**own, **signals, **{f"detector {d.name}": d for d in self._detectors}}

    @property
    def ends(self) -> dict[str, Event]:
        """How incidents that are over ended, by id."""
        over = [episode for episode in self._past if episode.incident.state == "resolved"]
        return {episode.incident.id: episode.end for episode in over if episode.end is not None}

    @contextmanager
    def keeping_what_stays(self) -> Iterator[None]:
        """Have checkpoints, and which numbers were given, survive that a snapshot is restored."""
        last, saved = self._last_number, self.checkpoints.saved
        try:
            yield
        finally:
            self._last_number = max(last, self._last_number)
            self.checkpoints.recall(saved)

    @property
    def incidents(self) -> list[Incident]:
        """Those that are over, then those that are not."""
        current = [
            episode.incident
            for signal in tuple(self._signals.values())
            for episode in (signal.episode, signal.pending)
            if episode is not None
        ]
        past = [episode.incident for episode in tuple(self._past)]
        return [*(incident for incident in past if incident.state == "resolved"), *current]

    def has_open(self, signal: str) -> bool:
        """Tell whether an incident on a signal is open, and has not settled."""
        tracker = self._signals.get(signal)
        episode = None if tracker is None else tracker.episode
        return episode is not None and episode.incident.state == "open"

    @property
    def critical(self) -> list[Incident]:
        """Those that are open and critical now."""
        return [i for i in self.incidents if i.is_open and i.severity == "critical"]

    def update(
        self,
        step: int,
        values: Mapping[str, float],
        alerts: Sequence[Alert],
        *,
        same_batch: bool = False,
    ) -> list[Change]:
        """Take in what was logged at a step and what the detectors said of it; return what changed.

        `same_batch` says that the step is of the same samples as the one before: what is said of
        it again confirms nothing.
        Whether a signal was quiet is known when the step is over, so it is told with the next.
        """
        changes = self._end_step() if step != self._step else []
        self._step = step
        self.recent.add(step, values)
        self._evidence.update(step, values)
        if alerts or self._busy:
            by_signal: dict[str, list[Alert]] = {}
            for alert in alerts:
                by_signal.setdefault(self._signal_of[alert.detector], []).append(alert)
            for name, said in by_signal.items():
                changes += self._signals[name].alarm(step, said, same_batch=same_batch)
            for name in by_signal:
                if self._signals[name] not in self._busy:
                    self._busy = sorted([*self._busy, self._signals[name]], key=_name)
            self._busy = [signal for signal in self._busy if signal.busy]
            for signal in self._busy:
                signal.look(values)
        return [self._completed(change) for change in changes] if changes else changes

    def end_step(self) -> list[Change]:
        """End the step under way; return what changed because nothing was said in it."""
        return [self._completed(change) for change in self._end_step()]

    def apply(self, command: Command, step: int) -> list[Change]:
        """Do what a person asked for; the incident may be over by now."""
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
        """Let the run end; what is open ends with it, unresolved."""
        changes = self.end_step()
        for signal in self._signals.values():
            changes += signal.finish(self._step or 0, reason)
        return changes

    def recall(self, told: Iterable[IncidentRecord]) -> None:
        """Note which incidents a journal holds, before its rows are gone through again.

        Those that a snapshot holds have another id if they were opened anew since.
        """
        self._known = {}
        places: dict[str, _Place] = {}
        for record in told:
            self._last_number = max(self._last_number, record.number)
            opened = record.opened
            place = (opened.signal, opened.started, opened.step)
            if opened.reason == "rolled_back":
                # It opened at the step that training went back to; its rows are those of the one
                # that it follows.
                place = places.get(opened.follows, place)
            places[record.id] = place
            if not record.was_rolled_back:
                self._known[place] = record.id, record.number, opened.follows
        for episode in self._opened_episodes():
            incident = episode.incident
            place = (incident.signal, incident.started, incident.opened or 0)
            if place in self._known:
                incident.id, incident.number, incident.follows = self._known[place]

    def forget_recoveries(self) -> None:
        """Reopen nothing that was over: what comes again after a rollback is new."""
        for signal in self._signals.values():
            signal.forget_recovery()

    def reconcile(
        self,
        step: int,
        told: Iterable[IncidentRecord],
        ends: Mapping[str, Event],
        *,
        undone: bool,
    ) -> list[Event]:
        """Return what must be told after a rollback or a crash, so that what was told is true.

        `ends` is how incidents ended when their rows were gone through again; `undone` says that
        some rows no longer count.
        """
        self._known = {}
        if undone:
            self.forget_recoveries()
        current = {
            signal.episode.incident.id: signal
            for signal in self._signals.values()
            if signal.episode is not None
        }
        told = list(told)
        if not undone:
            self._adopt(current, told, ends)
        news: list[Event] = []
        for record in told:
            signal = current.pop(record.id, None)
            if record.state == "resolved":
                if signal is not None and record.reason != "rolled_back":
                    news += self._ended_too_early(signal, step, record, undone=undone)
            elif signal is not None:
                news += self._state_told(signal, step, record, undone=undone)
            elif record.id in ends:
                # After a rollback as of now: that it ended may have been told, and undone, before.
                end = ends[record.id]
                news.append(replace(end, step=step) if undone else end)
            else:
                news.append(_resolved(record.last, step, "rolled_back" if undone else "lost"))
        news += [signal.restate(step, "confirmed") for signal in current.values()]
        return [self._complete(event) for event in news]

    def last_good_checkpoint(
        self, incident: Incident | Event, is_good: Callable[[str], bool] = lambda _: True
    ) -> Saved | None:
        """Return step and path of the last checkpoint from before an incident."""
        first = incident.started if incident.onset is None else incident.onset
        return self.checkpoints.last_before(first, self._unsafe(), is_good)

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

    def _archive(self, episode: Episode) -> None:
        kept = [other for other in self._past if other is not episode]  # it may have reopened
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

    def _adopt(
        self,
        current: dict[str, SignalTracker],
        told: Iterable[IncidentRecord],
        ends: Mapping[str, Event],
    ) -> None:
        """Give an incident the id that people know it by, where its rows were not read as before.

        A line may be damaged, or a setting may have changed: then it opens at another step.
        """
        known = {record.id for record in told}
        for record in told:
            if record.state == "resolved" or record.id in current or record.id in ends:
                continue
            for id_, signal in tuple(current.items()):
                episode = signal.episode
                if id_ not in known and episode is not None and signal.name == record.signal:
                    episode.incident.id, episode.incident.number = record.id, record.number
                    current[record.id] = current.pop(id_)
                    break

    def _ended_too_early(
        self, signal: SignalTracker, step: int, record: IncidentRecord, *, undone: bool
    ) -> list[Event]:
        """Make true what people take for over, and is not."""
        if not undone:  # klarm has changed its mind, or its rules: nobody is rung for that
            return [signal.restate(step, "resumed")]
        # Training went back to before its end. It opens anew: whoever closed it must hear of it.
        assert signal.episode is not None
        incident = signal.episode.incident
        self._last_number += 1
        incident.id = self._new_id(incident.signal, incident.started, step)
        incident.number = self._last_number
        incident.follows = record.id
        return [signal.restate(step, "rolled_back")]

    def _state_told(
        self, signal: SignalTracker, step: int, record: IncidentRecord, *, undone: bool
    ) -> list[Event]:
        assert signal.episode is not None
        incident = signal.episode.incident
        if SEVERITIES.index(incident.severity) > SEVERITIES.index(record.severity):
            return [signal.restate(step, "graver")]
        if record.state == "ended":
            return [signal.restate(step, "resumed")]
        if record.state != incident.state:
            reason: Reason = "back_in_time" if undone else "alert_while_settled"
            return [signal.restate(step, reason)]
        return []

    def _unsafe(self) -> list[Span]:
        """Return from which step to which the run was broken: what was saved there is no good."""
        incidents = {i.id: i for i in self.incidents if i.opened is not None}
        followers = {i.follows: i for i in incidents.values() if i.follows}
        spans: list[Span] = []
        for incident in incidents.values():
            if incident.severity == "critical":
                first = incident.started if incident.onset is None else incident.onset
                last = incident
                while last.reason == "superseded" and last.id in followers:
                    last = followers[last.id]
                if last.reason == "accepted" and last.by:
                    continue  # somebody has said that this is good
                end = last.back if last.reason == "closed" else last.ended
                spans.append((first, end if last.state == "resolved" else None))
        return spans

    def _completed(self, change: Change) -> Change:
        return self._complete(change) if isinstance(change, Event) else change

    def _complete(self, event: Event) -> Event:
        """Add to what opened or escalated what else moved, and where to go back to."""
        if event.event not in ("opened", "escalated"):
            return event
        episode = self._signals[event.signal].episode
        if episode is None or episode.incident.id != event.id:
            return event
        event = self._diagnosed(event, episode.incident)
        good = self.last_good_checkpoint(event)
        return event if good is None else replace(event, checkpoint=clean_line(good[1]))

    def _diagnosed(self, event: Event, incident: Incident) -> Event:
        went: Direction = "up" if event.worse == "higher" else "down"
        own = {d.measures: went for d in self._detectors if d.name in event.detectors}
        movements = self.recent.movements()
        left = [m.step for m in movements if m.metric in own and m.direction in (went, "broken")]
        known = [] if incident.onset is None else [incident.onset]
        incident.onset = min([event.started, *known, *left])
        event = replace(event, onset=incident.onset)
        event = diagnosed(
            event,
            movements,
            own,
            self._budgets[KL],
            probe_budget=self._budgets[PROBED],
            early=self._is_early(event),
        )
        return self._with_components(event)

    def _with_components(self, event: Event) -> Event:
        """Return an event on reward that also says which of several rewards moved."""
        found = self.recent.component_movements() if event.signal == _REWARD else []
        if not found:
            return event
        others = f"; {event.moved}" if event.moved else ""
        return replace(event, moved=f"{clean_line(summary(found))}{others}")

    def _is_early(self, event: Event) -> bool:
        """Tell whether the policy gave way when the run had just begun.

        That all rewards of a group are equal may be the task's fault; then entropy has to show it.
        """
        if self.recent.rows_until(event.started) > _EARLY_ROWS:
            return False
        first, latest = self.recent.first_and_latest("entropy", _EARLY_MEDIAN)
        gave_way = latest < first / _ENTROPY_FACTOR or latest > first * _ENTROPY_FACTOR
        return event.signal != "advantage" or gave_way


def _resolved(event: Event, step: int, reason: Reason) -> Event:
    """Return the end of an incident that is not followed any more."""
    return replace(
        event,
        event="resolved",
        step=step,
        reason=reason,
        recovered=reason == "rolled_back",
        moved="",
        pattern="",
        cause="",
        remedy="",
        checkpoint="",
    )


def _name(signal: SignalTracker) -> str:
    return signal.name
