"""The incidents of one signal: a state machine that processes one row after the other.

docs/incidents.md has a diagram. An alert makes an incident pending, and confirmation opens it. Once
there are no more alerts, it is resolved if its metric has recovered, and settled if not. A settled
incident recovers, is accepted, or is superseded by a new one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence, Set

from klarm.detectors import Detector
from klarm.incidents.allowances import Allowances
from klarm.incidents.confirmation import Confirmation, Confirmed
from klarm.incidents.episode import Episode
from klarm.incidents.escalation import escalate
from klarm.incidents.event_facts import is_back
from klarm.incidents.evidence import Evidence
from klarm.incidents.excuse import KL, PROBED, Excuse, kl_budgets
from klarm.incidents.excused import ExcusedAlerts
from klarm.incidents.in_alert import InAlert
from klarm.incidents.measured import Measured
from klarm.incidents.recent_rows import RecentRows
from klarm.incidents.reopening import is_new_problem, reopen, unsettle
from klarm.incidents.rules import IncidentRules
from klarm.types import METRIC_AFTER, Alert, Blip, Event, Incident, Reason, Resolution

Identity = tuple[str, int, str]  # id and number of an incident, and the id of the one it follows
# Called with the signal, the first step and the step of the opening.
Identify = Callable[[str, int, int], Identity]


class SignalTracker:
    """Follows one signal. Only this class changes its incidents."""

    def __init__(
        self,
        signal: str,
        detectors: Iterable[Detector],
        rules: IncidentRules,
        recent: RecentRows,
        evidence: Evidence,
        *,
        identify: Identify,
        archive: Callable[[Episode], None],
    ) -> None:
        self.name = signal
        self._detectors = {detector.name: detector for detector in detectors}
        self._rules = rules
        self._recent = recent
        self._evidence = evidence
        self._identify = identify
        self._archive = archive
        own = self._detectors.items()
        self._confirm = {name: d.confirm_steps or rules.confirm_steps for name, d in own}
        self._resolve = {name: d.resolve_after or rules.resolve_after for name, d in own}
        self._budgets = kl_budgets(detector for _, detector in own)
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        self.episode: Episode | None = None  # open or settled
        self.pending: Episode | None = None
        self._recovered: Episode | None = None  # recently, so it may reopen
        self._closed: list[Episode] = []  # resolved before their metrics had recovered
        self._rows_since_recovery = 0
        self._quiet = 0  # consecutive rows without an alert
        self._looked: set[str] = set()  # detectors that had a value to judge in this row
        self._alarmed = False  # whether the current row has an alert that counts
        self._allowed = False  # whether it has an alert that was allowed or excused
        self._confirmation = Confirmation(self._confirm)
        self._allowances = Allowances(self._rules.relapse_factor, self._rules.resolve_after)
        self._excused = ExcusedAlerts()
        self._in_alert = InAlert()

    @property
    def busy(self) -> bool:
        """Whether rows without an alert must be counted."""
        return bool(
            self.episode
            or self.pending
            or self._recovered
            or self._closed
            or self._allowances
            or self._excused
            or self._in_alert
        )

    def alarm(
        self,
        step: int,
        alerts: Sequence[Alert],
        *,
        same_batch: bool = False,
        late: int | None = None,
    ) -> list[Event]:
        """Add the alerts of a step; return the resulting events.

        `late` is the earlier step that the values belong to, if they arrived late.
        """
        measured = [Measured.of(alert, self._detectors[alert.detector]) for alert in alerts]
        counting = [one for one in measured if not self._is_allowed(one, step)]
        self._allowed = self._allowed or len(counting) < len(measured)
        if not counting:
            return []
        self._alarmed = True
        for one in counting:
            self._confirmation.add(one.alert, is_news=not same_batch)
        episode = self.episode
        self._quiet = 0
        if episode is not None and episode.incident.state == "open":
            for one in counting:
                episode.add(one, self._recent, is_news=not same_batch)
            return escalate(
                episode, step, counting, self._confirmation, rules=self._rules, recent=self._recent
            )
        if self.pending is None:
            # A decisive alert opens the incident in this row, so the incident is about its metric.
            first = next((one for one in counting if one.alert.decisive), counting[0])
            self.pending = Episode.begin(self.name, first, self._recent)
        pending = self.pending
        for one in counting:
            pending.add(one, self._recent, is_news=not same_batch)
        if late is not None:
            pending.late = late if pending.late is None else min(pending.late, late)
        # Other signals decide which alerts count, but not when the trouble began.
        began = self._in_alert.since(pending.courses)
        if began is not None:
            pending.incident.started = min(pending.incident.started, began)
        confirmed = self._confirmation.confirmed(counting)
        if confirmed is None:
            return []
        self.pending = None
        if episode is not None:
            return self._relapse(episode, pending, step, counting, confirmed)
        return self._open(pending, step, counting, confirmed)

    def _is_allowed(self, measured: Measured, step: int) -> bool:
        if self._allowances.allows(measured):
            return True
        self._in_alert.add(measured.kind, measured.alert.detector, step)
        excused = self._evidence.excuses(measured)
        if excused:
            self._excused.add(measured.kind, step, excused)
        return bool(excused)

    def look(self, values: Mapping[str, float]) -> None:
        """Note which detectors have a value to judge in this row. Only needed while it is busy."""
        for name, detector in self._detectors.items():
            if detector.looks_at(values):
                self._looked.add(name)

    def end_row(self, step: int) -> list[Event | Blip]:
        """End the current row, if it is one of this signal; return the changes."""
        if not self._looked:
            return []
        looked, self._looked = self._looked, set()
        self._confirmation.end_row(looked)
        if self.episode is not None and self.episode.excuse is not None:
            self.episode.excuse.look()
        changes = [] if self._alarmed else self._calm(step, looked)
        quiet = not self._alarmed and not self._allowed
        self._allowances.end_row(quiet=quiet)
        self._excused.end_row()
        self._in_alert.end_row(looked)
        if quiet and self._closed:
            self._note_back(step)
        self._alarmed = self._allowed = False
        if self.episode is not None:
            self.episode.rows_since_notified += 1
        elif self._recovered is not None:
            self._rows_since_recovery += 1
            if self._rows_since_recovery > self._rules.reopen_within:
                self._recovered = None
        return changes

    def close(self, step: int, by: str, *, accept: bool) -> list[Event]:
        """End the incident on request of a person. `accept` makes its level the new normal."""
        episode = self.episode
        if episode is None:
            return []
        episode.incident.by = by
        self._in_alert = InAlert()  # what follows is a new incident
        self._confirmation = Confirmation(self._confirm)
        if accept:
            self._allowances.accept(
                {
                    kind: _known_or(course.level(self._recent), course.worst)
                    for kind, course in episode.courses.items()
                }
            )
            return [self._end(episode, step, "accepted", by=by)]
        self._allowances.close(
            {kind: episode.level(kind, self._recent) for kind in episode.courses},
            episode.incident.severity,
            frozenset(episode.names),
        )
        return [self._end(episode, step, "closed", by=by)]

    def forget_recovery(self) -> None:
        """Do not reopen an incident that has recovered."""
        self._recovered = None

    def finish(self, step: int, reason: Reason = "finished") -> list[Event]:
        """End the run. An open incident ends with it, unresolved."""
        episode = self.episode
        if episode is None:
            return []
        episode.incident.state, episode.incident.ended = "ended", step
        return [episode.event("ended", step, reason, self._recent)]

    def restate(self, step: int, reason: Reason) -> Event:
        """Return the event that corrects what people were last notified of."""
        episode = self.episode
        assert episode is not None
        if reason in ("confirmed", "rolled_back"):
            return episode.event("opened", step, reason, self._recent)
        if reason == "severity_raised":
            return episode.event("escalated", step, reason, self._recent)
        if episode.incident.state == "settled":
            return episode.event("settled", step, "settled", self._recent)
        return episode.event("reopened", step, reason, self._recent)

    def _note_back(self, step: int) -> None:
        for episode in self._closed:
            if episode.is_back(self._recent):
                episode.incident.back = step
        self._closed = [episode for episode in self._closed if episode.incident.back is None]

    def _calm(self, step: int, looked: Set[str]) -> list[Event | Blip]:
        changes: list[Event | Blip] = []
        if self.pending is not None and not looked.isdisjoint(self.pending.incident.detectors):
            changes.append(_blip(self.pending.incident, step))
            self.pending = None
        episode = self.episode
        if episode is None or looked.isdisjoint(episode.incident.detectors):
            return changes  # this row was about another metric of the signal
        self._quiet += 1
        settled = episode.incident.state == "settled"
        if not settled and self._quiet < self._quiet_rows_needed(episode):
            return changes
        if episode.is_back(self._recent):
            changes.append(self._end(episode, step, "recovered", rows=self._quiet))
            self._recovered, self._rows_since_recovery = episode, 0
        elif not settled:
            changes.append(self._settle(episode, step))
        elif self._quiet >= self._rules.accept_after and self._may_be_accepted(episode):
            changes.append(self._end(episode, step, "accepted", rows=self._quiet))
        return changes

    def _open(
        self, episode: Episode, step: int, alerts: Sequence[Measured], confirmed: Confirmed
    ) -> list[Event]:
        earlier, self._recovered = self._recovered, None
        self._allowances.lift(episode.courses)
        if earlier is not None and earlier.kind == episode.kind:
            self.episode, self._quiet = earlier, 0
            return reopen(
                earlier,
                episode,
                step,
                confirmed,
                rules=self._rules,
                recent=self._recent,
                rows_since_recovery=self._rows_since_recovery,
            )
        return [self._opened(episode, step, alerts, confirmed)]

    def _opened(
        self,
        episode: Episode,
        step: int,
        alerts: Sequence[Measured],
        confirmed: Confirmed,
        follows: Episode | None = None,
    ) -> Event:
        incident = episode.incident
        identity = self._identify(self.name, incident.started, step)
        incident.id, incident.number, incident.follows = identity
        incident.state, incident.opened = "open", step
        incident.onset, incident.unsafe_from = episode.late, self._excused.since(episode.courses)
        incident.ignored_since = self._in_alert.ignored_since(episode.courses)
        incident.excuse = self._excused.excuse(episode.courses, before=step)
        incident.severity = confirmed.severity
        episode.report(confirmed.by)
        if follows is not None:
            incident.follows = follows.incident.id
            episode.supersede(follows, self._recent)
        for course in episode.courses.values():
            course.measure_normal(self._recent)
        episode.notified_kinds = {measured.kind for measured in alerts}
        if episode.not_finite_rows >= self._rules.confirm_steps:
            episode.notified_not_finite = True
        self.episode, self._quiet = episode, 0
        return episode.event("opened", step, confirmed.reason, self._recent, rows=confirmed.rows)

    def _relapse(
        self,
        episode: Episode,
        again: Episode,
        step: int,
        alerts: Sequence[Measured],
        confirmed: Confirmed,
    ) -> list[Event]:
        """Decide whether a confirmed alert while settled is a new problem or the same again."""
        if not is_new_problem(episode, again, confirmed, self._rules, self._recent):
            return [unsettle(episode, again, step, self._recent)]
        end = self._end(episode, step, "superseded")
        return [end, self._opened(again, step, alerts, confirmed, follows=episode)]

    def _settle(self, episode: Episode, step: int) -> Event:
        incident = episode.incident
        course = episode.courses[episode.kind]
        incident.level = _known_or(course.shown_level(self._recent), incident.peak)
        incident.state = "settled"
        if incident.severity == "critical":
            kl = PROBED if episode.kind[0] == PROBED else KL
            episode.excuse = Excuse(self._recent, incident.started, self._budgets[kl], kl)
            episode.excuse.look()
        return episode.event("settled", step, "settled", self._recent, rows=self._quiet)

    def _end(
        self,
        episode: Episode,
        step: int,
        reason: Resolution,
        *,
        by: str = "",
        rows: int | None = None,
    ) -> Event:
        incident = episode.incident
        if METRIC_AFTER[reason] == "bad":
            self._closed.append(episode)
        incident.state, incident.ended, incident.reason = "resolved", step, reason
        self.episode = self.pending = None
        self._archive(episode)
        end = episode.event("resolved", step, reason, self._recent, by=by, rows=rows)
        incident.at_new_level = reason == "recovered" and not is_back(end)
        episode.end = end
        return end

    def _may_be_accepted(self, episode: Episode) -> bool:
        if episode.incident.severity == "warning":
            return True
        return self.name == "kl" and episode.excuse is not None and episode.excuse.held

    def _quiet_rows_needed(self, episode: Episode) -> int:
        own = (self._resolve[name] for name in episode.incident.detectors)
        needed = max(episode.min_quiet_rows, *own)
        if episode.reopenings >= self._rules.reopen_limit:
            return max(needed, self._rules.reopen_within)
        return needed


def _known_or(level: float, otherwise: float) -> float:
    return level if math.isfinite(level) else otherwise


def _blip(incident: Incident, step: int) -> Blip:
    return Blip(
        signal=incident.signal,
        severity=incident.severity,
        started=incident.started,
        step=step,
        detectors=list(incident.detectors),
        peak=incident.peak,
    )
