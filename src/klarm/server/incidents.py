"""The incidents of a run, as the page lists them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from math import isfinite

import msgspec
import numpy as np
from msgspec.structs import asdict, replace

from klarm.incidents import early_onset, metric_of
from klarm.journal import IncidentRecord
from klarm.runs import limits_of
from klarm.server.served_run import ServedRun
from klarm.server.summary import BriefIncident, Number, brief_incident, spelt
from klarm.wording import headline, standing, why


class Mark(msgspec.Struct):
    """The mark that an incident was a false alarm."""

    by: str
    time: float
    note: str


class WaitingCommand(msgspec.Struct):
    """A command that the run has not applied yet."""

    command: str
    by: str
    time: float


class IncidentInRun(BriefIncident, kw_only=True):
    """One incident in its current state."""

    state_text: str
    is_open: bool
    reason: str
    headline: str
    why: str
    started_time: float | None
    onset: int | None
    out_of_range_from: int | None
    opened: int
    opened_time: float | None
    ended: int | None
    ended_time: float | None
    last_step: int
    detectors: list[str]
    peak: Number
    worse: str
    level: float | None
    before: float | None
    follows: str
    by: str
    acknowledged_by: list[str]
    silenced: bool
    false_alarm: Mark | None
    commands_pending: list[WaitingCommand]


class BlipInRun(msgspec.Struct):
    """Alerts that were too few to open an incident."""

    signal: str
    severity: str
    started: int
    step: int
    detectors: list[str]
    peak: Number
    rolled_back: bool


class Incidents(msgspec.Struct):
    """The incidents of a run."""

    run: str
    incidents: list[IncidentInRun]
    blips: list[BlipInRun]


def incidents(run: ServedRun) -> Incidents:
    """Return the incidents of a run in the order in which they opened."""
    shown = ShownIncidents(run)
    found = [shown.of(known) for known in run.incidents.values()]
    return Incidents(run.id, found, list(_blips(run)))


def _blips(run: ServedRun) -> Iterator[BlipInRun]:
    limits = limits_of(run.state.rollbacks)
    begins = [begin for begin, _ in limits]
    for passed in run.state.blips:
        blip, limit = passed.blip, limits[bisect_right(begins, passed.place.begin) - 1][1]
        yield BlipInRun(
            *(blip.signal, blip.severity, blip.started, blip.step),
            *(blip.detectors, blip.peak, blip.step >= limit),
        )


class ShownIncidents:
    """Makes the shown form of a run's incidents; files beside the journal are read only once."""

    def __init__(self, run: ServedRun) -> None:
        self._run = run
        self._acknowledged, self._silences = run.acknowledged, run.silences()

    def of(self, incident: IncidentRecord) -> IncidentInRun:
        """Return one incident in its current state."""
        last, opened = incident.last, incident.opened
        ended = self._end_of(incident)
        mark = self._run.marks.get(incident.id)
        waiting = [
            command
            for command in self._run.waiting_commands
            if command.incident == incident.id and self._run.trains
        ]
        return IncidentInRun(
            **asdict(brief_incident(incident)),
            state_text=standing(incident, may_go_on=self._run.may_go_on),
            is_open=incident.is_open,
            reason=incident.reason,
            headline=headline(last),
            why=why(last),
            started_time=self._run.columns.time_of(last.started),
            onset=opened.onset,
            out_of_range_from=early_onset(replace(opened, started=last.started)),
            opened=opened.step,
            opened_time=self._run.columns.time_of(opened.step),
            ended=ended,
            # The rows do not have the times of steps that were rolled back.
            ended_time=(
                None
                if ended is None or incident.was_rolled_back
                else self._run.columns.time_of(ended)
            ),
            last_step=last.step,
            detectors=last.detectors,
            peak=self._peak(incident),
            worse=last.worse,
            level=last.level,
            before=last.before,
            follows=last.follows or opened.follows,
            by=last.by,
            acknowledged_by=list(self._acknowledged.get(incident.id, ())),
            silenced=incident.is_open
            and any(
                known.signal == incident.signal
                and (known.even_critical or incident.severity != "critical")
                for known in self._silences
            ),
            false_alarm=None if mark is None else Mark(mark.by, mark.time, mark.note),
            commands_pending=[WaitingCommand(c.command, c.by, c.time) for c in waiting],
        )

    def _peak(self, incident: IncidentRecord) -> Number:
        """Return the worst value so far; while an incident is open, its last event may be old."""
        last, peak = incident.last, incident.last.peak
        if not incident.is_open or isinstance(peak, str) or not isfinite(peak):
            return peak
        points = self._run.columns_with([metric_of(last)]).points(metric_of(last))
        since = points.y[np.searchsorted(points.x, last.started) :]
        finite = np.isfinite(since)
        if not finite.all():
            return spelt(float(since[~finite][0]))
        worst: float = (min if last.worse == "lower" else max)([peak, *since.tolist()])
        return worst

    def _end_of(self, incident: IncidentRecord) -> int | None:
        """Return the last step of an incident; if it was rolled back, the last such step."""
        if incident.state != "resolved":
            return None
        if not incident.was_rolled_back:
            return incident.last.step
        undone = (
            back.last
            for back in reversed(self._run.fold.rollbacks)
            if back.step == incident.last.step
        )
        return max(next(undone, incident.opened.step), incident.last.started)
