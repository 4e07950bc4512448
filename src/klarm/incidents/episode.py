"""An episode: an incident together with what its tracker needs to judge it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from klarm.incidents.confirmation import is_graver
from klarm.incidents.excuse import Excuse
from klarm.incidents.measured import Measured
from klarm.incidents.recovery import LEVEL_ROWS, Course, Kind, is_worse
from klarm.incidents.trends import RecentRows
from klarm.types import Event, EventKind, Incident, Reason


@dataclass
class Episode:
    """One incident, pending, open or settled, or recovered a short while ago."""

    incident: Incident
    counts_steps: bool  # its peak is a count of steps, which grows by itself
    courses: dict[Kind, Course] = field(default_factory=dict)
    # What people were notified of: kinds, detectors and the peak, and how many rows ago.
    told_kinds: set[Kind] = field(default_factory=set)
    told_detectors: set[str] = field(default_factory=set)
    told_names: set[str] = field(default_factory=set)  # of metrics that were lost
    names: set[str] = field(default_factory=set)
    notified_peak: float = math.nan  # finite: how much worse than NaN something is cannot be said
    finite_peak: float = math.nan
    rows_since_notified: int = 0
    reopenings: int = 0
    excuse: Excuse | None = None
    end: Event | None = None  # that told its end, if it is over

    @classmethod
    def begin(cls, signal: str, said: Measured) -> Episode:
        """Begin one with its first alert, pending."""
        incident = Incident(
            signal=signal,
            metric=said.kind[0],
            started=said.alert.step,
            state="pending",
            severity=said.alert.severity,
            detectors=[],
            alerts=0,
            last_alert=said.alert.step,
            worst=said.alert,
            peak=said.value or 0.0,
            worse=said.kind[1],
        )
        return cls(incident, said.detector.watches_all)

    @property
    def kind(self) -> Kind:
        """What it is about first of all."""
        return self.incident.metric, self.incident.worse

    @property
    def normal(self) -> float:
        """What its metric was before; NaN if that is not known."""
        course = self.courses.get(self.kind)
        return math.nan if course is None else course.normal

    @property
    def notified(self) -> float:
        """What people know the metric to be; what was normal, where they know of a NaN alone."""
        return self.notified_peak if math.isfinite(self.notified_peak) else self.normal

    def add(self, said: Measured, recent: RecentRows) -> None:
        """Take in one more alert."""
        incident, alert = self.incident, said.alert
        self.names |= said.names
        if incident.state == "pending" and is_graver(alert.severity, incident.severity):
            incident.severity, incident.worst = alert.severity, alert
            self.turn_to(said)
        incident.alerts += 1
        incident.last_alert = alert.step
        if alert.detector not in incident.detectors:
            incident.detectors.append(alert.detector)
        by_level = said.detector.recovery == "level"
        course = self.courses.get(said.kind)
        if course is None:
            course = Course(said.kind, alert.step, said.value or 0.0, by_level)
            self.courses[said.kind] = course
            if incident.state != "pending":  # what is pending may be a blip
                course.measure_normal(recent)
        else:
            course.by_level = course.by_level or by_level
            if said.value is not None and is_worse(said.value, course.worst, alert.worse):
                course.worst = said.value
        # The peak is of the metric that began it: detectors of one signal may watch several.
        if said.kind != self.kind or said.value is None:
            return
        if is_worse(said.value, incident.peak, incident.worse):
            incident.peak = said.value
        self._raise_finite_peak(said.value)

    def turn_to(self, said: Measured) -> None:
        """Let the other end of the metric's range be the trouble, if that is what was said."""
        metric, worse = said.kind
        if metric == self.incident.metric and worse != self.incident.worse:
            self.incident.worse, self.incident.peak = worse, said.value or 0.0
            self.finite_peak = said.value if said.value is not None else math.nan

    def merge(self, other: Episode, recent: RecentRows) -> None:
        """Take in another episode of the same trouble, which never opened by itself."""
        mine, its = self.incident, other.incident
        mine.alerts += its.alerts
        mine.last_alert = its.last_alert
        mine.detectors += [name for name in its.detectors if name not in mine.detectors]
        self.names |= other.names
        for kind, course in other.courses.items():
            course.measure_normal(recent)
            known = self.courses.setdefault(kind, course)
            if is_worse(course.worst, known.worst, kind[1]):
                known.worst = course.worst
        if self.kind != other.kind:
            return
        if is_worse(its.peak, mine.peak, mine.worse):
            mine.peak = its.peak
        self._raise_finite_peak(other.finite_peak)

    def supersede(self, other: Episode, recent: RecentRows) -> None:
        """Go on from one that had settled: it is over only when both are, and no less severe."""
        mine, its = self.incident, other.incident
        for kind, course in other.courses.items():
            if kind in self.courses:
                self.courses[kind].follow(course, other.level(kind, recent))
            else:
                self.courses[kind] = course
        if is_graver(its.severity, mine.severity):
            mine.severity = its.severity

    def _raise_finite_peak(self, value: float) -> None:
        peak = self.finite_peak
        if value - value == 0.0 and (peak != peak or is_worse(value, peak, self.incident.worse)):  # noqa: PLR0124
            self.finite_peak = value

    def is_back(self, recent: RecentRows) -> bool:
        """Tell whether everything it is about is over, now that it is quiet."""
        return all(course.is_back(recent) for course in self.courses.values())

    def level(self, kind: Kind, recent: RecentRows) -> float:
        """Return where a metric is: where it settled, else the worst of its latest values."""
        if self.incident.level is not None and kind == self.kind:
            return self.incident.level
        level = recent.worst(*kind, LEVEL_ROWS)
        return level if math.isfinite(level) else self.courses[kind].worst

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
        """Return what there is to say of a change; who is notified of what is noted here.

        `news` is the alert that brought it about, if it is of another kind than the incident.
        """
        incident = self.incident
        (metric, worse), peak = self.kind, incident.peak
        if reason == "far_worse":
            peak = self.finite_peak
        if news is not None:
            (metric, worse), peak = news.kind, news.value or 0.0
        course = self.courses.get(self.kind)
        level = normal = math.nan
        if course is not None:
            normal = course.normal
            level = course.level(recent) if kind in ("settled", "resolved") else math.nan
        notified = self.notified_peak
        if kind in ("opened", "escalated"):
            self.notified_peak, self.rows_since_notified = self.finite_peak, 0
            self.told_detectors = set(incident.detectors)
            self.told_names |= self.names
        return Event(
            event=kind,
            incident=incident.number,
            signal=incident.signal,
            severity=incident.severity,
            step=step,
            started=incident.started,
            detectors=list(incident.detectors),
            peak=peak,
            reason=reason,
            message=incident.worst.message,
            recommendation=incident.worst.recommendation,
            recovered=kind != "resolved" or reason in ("recovered", "accepted"),
            id=incident.id,
            metric="" if self.counts_steps else metric,
            worse=worse,
            rows=rows,
            level=_known(level),
            before=_known(normal),
            notified=_known(notified) if reason == "far_worse" else None,
            follows=incident.follows,
            by=by,
            detector=incident.worst.detector,
        )


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None
