"""An episode: an incident together with the state that its tracker needs."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from msgspec.structs import replace

from klarm.incidents.confirmation import is_more_severe
from klarm.incidents.event_facts import early_onset, peak_is_finite
from klarm.incidents.excuse import Excuse
from klarm.incidents.lost import lost_since, named_by_lost
from klarm.incidents.measured import Measured
from klarm.incidents.recent_rows import RecentRows
from klarm.incidents.recovery import LEVEL_ROWS, Course, Kind, is_worse
from klarm.incidents.restated import message_of
from klarm.types import METRIC_AFTER, Event, EventKind, Incident, Reason


@dataclass
class Episode:
    """One incident that is pending, open, settled or recently recovered."""

    incident: Incident
    counts_steps: bool  # its peak is a number of steps, which always grows
    courses: dict[Kind, Course] = field(default_factory=dict)
    # What people were notified of, and how many rows ago.
    notified_kinds: set[Kind] = field(default_factory=set)
    notified_detectors: set[str] = field(default_factory=set)
    notified_names: set[str] = field(default_factory=set)  # lost metrics
    names: set[str] = field(default_factory=set)
    notified_peak: float = math.nan  # finite: nothing can be compared with NaN
    notified_worst: float = math.nan  # the same over all rows, which is what they read
    finite_peak: float = math.nan
    rows_since_notified: int = 0
    notified_step: int | None = None
    # In how many rows values were not finite, the last of these, and whether people know of them.
    not_finite_rows: int = 0
    last_not_finite: int | None = None
    notified_not_finite: bool = False
    reopenings: int = 0
    min_quiet_rows: int = 0  # if its detectors do not look at every row, their alerts may pause
    late: int | None = None  # the first step that values in alert belong to, if they arrived late
    excuse: Excuse | None = None
    diagnosed: Event | None = None  # the last event with a likely cause
    end: Event | None = None  # the event of its end, if it has ended

    @classmethod
    def begin(cls, signal: str, measured: Measured, recent: RecentRows) -> Episode:
        """Begin a pending episode with its first alert.

        Whatever is missing or stuck by then has been so for many steps.
        """
        alert, watches_all = measured.alert, measured.detector.watches_all
        started = lost_since(alert, recent) if watches_all else measured.began(recent)
        incident = Incident(
            signal=signal,
            metric=measured.kind[0],
            started=started,
            state="pending",
            severity=alert.severity,
            detectors=[],
            alerts=0,
            last_alert=alert.step,
            worst=alert,
            peak=measured.value or 0.0,
            worse=measured.kind[1],
            subject=measured.kind[0],
        )
        if watches_all:
            incident.subject = named_by_lost(alert) or signal
        return cls(incident, watches_all)

    @property
    def kind(self) -> Kind:
        """The metric and direction of its first alert."""
        return self.incident.metric, self.incident.worse

    @property
    def normal(self) -> float:
        """The level of its metric before the incident; NaN if unknown."""
        course = self.courses.get(self.kind)
        return math.nan if course is None else course.normal

    @property
    def shown_before(self) -> float:
        """The level of its metric before the incident, as people read it; NaN if unknown."""
        course = self.courses.get(self.kind)
        return math.nan if course is None else course.shown_before

    @property
    def notified(self) -> float:
        """The peak that people were notified of; the normal level if they only know of a NaN."""
        return self.notified_peak if math.isfinite(self.notified_peak) else self.normal

    def add(self, measured: Measured, recent: RecentRows, *, is_news: bool = True) -> None:
        """Add one more alert. One that is not news has values of the same batch as the last row."""
        incident, alert = self.incident, measured.alert
        self.names |= measured.names
        if is_news and not measured.is_finite and alert.step != self.last_not_finite:
            self.not_finite_rows += 1
            self.last_not_finite = alert.step
        if incident.state == "pending" and is_more_severe(alert.severity, incident.severity):
            incident.severity, incident.worst = alert.severity, alert
            self.turn_to(measured)
        incident.alerts += 1
        incident.last_alert = alert.step
        if alert.detector not in incident.detectors:
            incident.detectors.append(alert.detector)
        rows_per_check = measured.detector.rows_per_check
        if rows_per_check > 1 and measured.is_finite and not measured.detector.resolve_after:
            self.min_quiet_rows = max(self.min_quiet_rows, 2 * rows_per_check)
        recovery = measured.detector.recovery
        by_level, by_size = recovery != "quiet", recovery == "size"
        course = self.courses.get(measured.kind)
        # The level that a later alert compared with may be one from long before the incident.
        begins = course is None or incident.state == "pending"
        if course is None:
            course = Course(measured.kind, alert.step, measured.value or 0.0, by_level, by_size)
            self.courses[measured.kind] = course
            if incident.state != "pending":  # a pending one may be a blip
                course.measure_normal(recent)
        else:
            course.by_level = course.by_level or by_level
            course.by_size = course.by_size or by_size
            if measured.value is not None:
                course.add(measured.value, alert.step)
        if begins:
            course.note_came_from(measured.came_from)
        # The peak is that of the first metric: detectors of one signal may watch several.
        if measured.kind != self.kind or measured.value is None:
            return
        if is_worse(measured.value, incident.peak, incident.worse):
            incident.peak = measured.value
        self._raise_finite_peak(measured.value)

    def report(self, measured: Measured) -> None:
        """Take an alert as the one that people read about next.

        From the second value that is not finite on, they are told that it lasts.
        """
        self.incident.worst = measured.alert
        if self.not_finite_rows > 1 and not measured.is_finite:
            self.incident.worst, self.notified_not_finite = measured.lasting_alert, True

    def turn_to(self, measured: Measured) -> None:
        """Switch the direction of the incident to that of an alert on the same metric."""
        metric, worse = measured.kind
        if metric == self.incident.metric and worse != self.incident.worse:
            self.incident.worse, self.incident.peak = worse, measured.value or 0.0
            self.finite_peak = measured.value if measured.value is not None else math.nan
            self.notified_worst = math.nan

    def merge(self, other: Episode, recent: RecentRows) -> None:
        """Merge another episode of the same problem, which has not been opened itself."""
        mine, its = self.incident, other.incident
        mine.alerts += its.alerts
        mine.last_alert = its.last_alert
        mine.detectors += [name for name in its.detectors if name not in mine.detectors]
        self.names |= other.names
        self.not_finite_rows += other.not_finite_rows
        self.min_quiet_rows = max(self.min_quiet_rows, other.min_quiet_rows)
        for kind, course in other.courses.items():
            course.measure_normal(recent)
            self.courses.setdefault(kind, course).merge(course)
        if self.kind != other.kind:
            return
        if is_worse(its.peak, mine.peak, mine.worse):
            mine.peak = its.peak
        self._raise_finite_peak(other.finite_peak)

    def supersede(self, other: Episode, recent: RecentRows) -> None:
        """Continue a settled episode: this one ends only when both have ended, and is as severe."""
        mine, its = self.incident, other.incident
        for kind, course in other.courses.items():
            if kind in self.courses:
                self.courses[kind].follow(course, other.level(kind, recent))
            else:
                self.courses[kind] = course
        if is_more_severe(its.severity, mine.severity):
            mine.severity = its.severity

    def _raise_finite_peak(self, value: float) -> None:
        peak = self.finite_peak
        if value - value == 0.0 and (peak != peak or is_worse(value, peak, self.incident.worse)):  # noqa: PLR0124
            self.finite_peak = value

    def _worst(self, recent: RecentRows, first: int) -> float:
        """Return the worst finite value of its metric that people can see in the curve from a step.

        The rules use the peak of the alerts, whose value may be a median, or come rows later.
        """
        metric, worse = self.kind
        course = self.courses.get(self.kind)
        if self.counts_steps or course is None:
            return self.finite_peak
        found = recent.finite_values(metric, first, math.inf)
        known = [value for value in (self.notified_worst, self.finite_peak) if value == value]  # noqa: PLR0124
        if course.by_size:  # the peak of the alerts is a size, the others have their sign
            return max([*found, *known], key=abs, default=math.nan)
        return (max if worse == "higher" else min)([*known, *found], default=math.nan)

    def is_back(self, recent: RecentRows) -> bool:
        """Return whether all its metrics have recovered, given that there are no alerts."""
        return all(course.is_back(recent) for course in self.courses.values())

    def level(self, kind: Kind, recent: RecentRows) -> float:
        """Return the level of a metric: where it settled, or the worst of its latest values."""
        course = self.courses[kind]
        if self.incident.level is not None and kind == self.kind:
            return abs(self.incident.level) if course.by_size else self.incident.level
        level = recent.worst(*kind, LEVEL_ROWS, sizes=course.by_size)
        return level if math.isfinite(level) else course.worst

    def in_hindsight(self, event: Event, recent: RecentRows) -> Event:
        """Return its event with the level before its onset and, if it opens, the worst so far.

        That is the worst since its onset if messages name that step, otherwise since its first
        alert. Only what people read changes: the rules go on with the peak of the alerts.
        """
        course, onset = self.courses.get(self.kind), self.incident.onset
        if course is None or onset is None:
            return event
        course.measure_before(recent, onset)
        event = replace(event, before=_known(course.shown_before))
        if event.event != "opened" or not peak_is_finite(event):
            return event
        began = early_onset(event)
        worst = self._worst(recent, self.incident.started if began is None else began)
        if not math.isfinite(worst):
            return event
        self.notified_worst = worst
        return replace(event, peak=worst)

    def event(
        self,
        kind: EventKind,
        step: int,
        reason: Reason,
        recent: RecentRows,
        *,
        news: Measured | None = None,
        rows: int | None = None,
        by: str = "",
    ) -> Event:
        """Return the event of a change, and remember what people are notified of.

        `news` is the alert that caused the change, if it is of another kind than the incident.
        """
        incident = self.incident
        (metric, worse), peak = self.kind, incident.peak
        if reason == "confirmed" and rows is not None:
            # Alerts that did not count confirmed nothing, but it has been in alert since the first.
            rows = max(rows, sum(metric in row for _, row in recent.since(incident.started)))
        worst = self._worst(recent, incident.started)
        if reason == "far_worse" or (math.isfinite(peak) and math.isfinite(worst)):
            peak = worst
        if news is not None:
            (metric, worse), peak = news.kind, news.value or 0.0
        course = self.courses.get(self.kind)
        level = before = math.nan
        if course is not None:
            before = course.shown_before
            level = course.shown_level(recent) if kind in ("settled", "resolved") else math.nan
        notified = self.notified_worst if math.isfinite(self.notified_peak) else math.nan
        notified_step = self.notified_step if reason == "far_worse" else None
        if kind in ("opened", "escalated"):
            self.notified_peak, self.notified_worst = self.finite_peak, worst
            self.rows_since_notified, self.notified_step = 0, step
            self.notified_detectors = set(incident.detectors)
            self.notified_names |= self.names
        event = Event(
            event=kind,
            incident=incident.number,
            signal=incident.signal,
            severity=incident.severity,
            step=step,
            started=incident.started,
            detectors=list(incident.detectors),
            peak=peak,
            reason=reason,
            message=message_of(incident),
            # The latest alert of a critical incident may be a warning.
            recommendation=incident.worst.advice(
                incident.severity if reason == "far_worse" else incident.worst.severity
            ),
            recovered=kind != "resolved" or METRIC_AFTER[reason] in ("normal", "accepted"),
            id=incident.id,
            metric="" if self.counts_steps else metric,
            worse=worse,
            rows=rows,
            level=_known(level),
            before=_known(before),
            notified=_known(notified) if reason == "far_worse" else None,
            follows=incident.follows,
            by=by,
            detector=incident.worst.detector,
            alert_severity=incident.worst.severity,
            subject=incident.subject,
            onset=incident.onset,
            onset_rows=None if incident.onset is None else incident.onset_rows,
            unsafe_from=incident.unsafe_from,
            ignored_since=incident.ignored_since,
            notified_step=notified_step,
            excuse=incident.excuse,
        )
        said = self.diagnosed
        if said is None or kind not in ("settled", "reopened", "ended"):
            return event
        return replace(
            event,
            pattern=said.pattern,
            cause=said.cause,
            remedy=said.remedy,
            action=said.action,
            checkpoint=said.checkpoint,
        )


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None
