"""What the console says at the end of a run: how it ended, its alerts and its incidents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from klarm.detectors import Detector
from klarm.incidents import Change, IncidentRules, Tracker, is_crash
from klarm.journal import DETACHED, IncidentRecord
from klarm.metrics import Binding
from klarm.monitor.coverage import watched
from klarm.monitor.ending import Ending
from klarm.monitor.missing import nothing_known
from klarm.monitor.resume import Past
from klarm.monitor.steps import Timeline
from klarm.monitor.summary import (
    alerts_in_sum,
    as_of,
    incidents_and_where,
    left_open,
    why_no_incident,
)
from klarm.monitor.unwatched import without_kl
from klarm.types import Alert, Event, Incident
from klarm.wording import counted


@dataclass
class RunSummary:
    """Counts the alerts of a run, and writes its last lines."""

    run: str
    detectors: Sequence[Detector]
    rules: IncidentRules
    binding: Binding
    past: Past
    timeline: Timeline
    tracker: Tracker
    alert_counts: dict[str, int] = field(default_factory=lambda: {"warning": 0, "critical": 0})
    # What the number of rows counts: an earlier process may have logged some, too.
    since: str = ""
    rolled_back: str = ""

    def __post_init__(self) -> None:
        self._alerts_of: Counter[str] = Counter()  # by detector
        self._decisive: set[str] = set()  # detectors with a decisive alert

    @property
    def folder(self) -> Path | None:
        """Where the journal is, if the run is recorded."""
        path = self.past.journal.path
        return None if path is None else path.parent

    def count(self, alert: Alert) -> None:
        """Count one more alert."""
        self.alert_counts[alert.severity] += 1
        self._alerts_of[alert.detector] += 1
        if alert.decisive:
            self._decisive.add(alert.detector)

    def lines(self, ending: Ending, changes: Iterable[Change]) -> Iterator[str]:
        """Yield the last lines of a run. `changes` are those of its end."""
        if any(self.alert_counts.values()):
            why: list[str] = []
            if not any(incident.opened is not None for incident in self.tracker.incidents):
                why = why_no_incident(
                    self._alerts_of,
                    self.tracker.excused,
                    self.detectors,
                    self.rules,
                    decisive=self._decisive,
                )
            yield alerts_in_sum(self.alert_counts, self.folder, why, self.since)
        for detector in self.detectors:
            if detector.enabled and detector.blind_spot:
                yield detector.blind_spot
        rows, last = self.timeline.steps_logged, self.timeline.step
        nothing = self._nothing_was_watched()
        if ending.outcome == DETACHED and not ending.once and not nothing:
            caveat = "" if any(known.is_open for known in self._known()) else self._caveat
            yield f"{left_open(self.run, last, self._known(), self.folder)}{caveat}"
            return
        if ending.once and last is not None:
            ended = as_of(self.run, last, rows)
        else:
            after = f"{counted(rows, 'row')}{self.since}{self.rolled_back}"
            ended = ending.in_words(self.run, after)
        summary = nothing or incidents_and_where(self.tracker.incidents, self.folder)
        if not nothing and not any(known.opened is not None for known in self.tracker.incidents):
            summary += self._caveat
        for crash in changes:
            if isinstance(crash, Event) and is_crash(crash):
                summary = f"the crash is incident {crash.incident}; apart from it, {summary}"
        yield f"{ended}: {summary}"

    @property
    def _caveat(self) -> str:
        """What to add to "no incident"."""
        return without_kl(self.binding.keys) if self.timeline.steps_logged else ""

    def _known(self) -> Iterable[Incident | IncidentRecord]:
        """Return the incidents of the run, also if this process has not logged a step."""
        recorded = self.past.recorded
        if self.timeline.from_earlier_process and recorded is not None:
            return recorded.incidents.values()
        return [incident for incident in self.tracker.incidents if incident.opened is not None]

    def _nothing_was_watched(self) -> str:
        """Return that "no incident" would mean nothing; "" if the run was watched."""
        if not self.timeline.steps_logged:
            return "" if any(True for _ in self._known()) else "nothing was watched"
        on = any(detector.enabled for detector in self.detectors)
        if not on or watched(self.detectors, self.binding):
            return ""
        return f"NOTHING WAS WATCHED: {nothing_known(self.binding)}"
