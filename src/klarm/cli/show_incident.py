"""Shows one incident: what happened, what to do, its curve and who was notified."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace
from rich.text import Text

from klarm.cli.curve import draw_curve, scale_of
from klarm.cli.run_channels import channels_of
from klarm.cli.show import beside, chart_size, clock, labelled, notes_of
from klarm.cli.which import Found
from klarm.config import Config
from klarm.delivery import Run, Verdict, deliveries, prospects_of
from klarm.incidents import early_onset, is_alarm, metric_of, peak_is_finite
from klarm.runs import Value
from klarm.text import clean
from klarm.types import Event
from klarm.wording import (
    COLOURS,
    advice,
    before_it,
    counted,
    number,
    since,
    title,
    what_happened,
    why,
)

if TYPE_CHECKING:
    from rich.console import Console

_BEFORE, _AFTER = 100, 20  # rows with its metric to draw around it
_MANY_ROWS = 20_000  # of a longer incident, the thinned curve of the run is drawn
_OUTCOMES = {"sent": "notified", "refused": "rejected"}
_AHEAD: Mapping[Verdict, str] = {"send": "pending", "wait": "held back until the silence ends"}


def show_incident(console: Console, found: Found, settings: Config) -> None:
    """Show an incident of a run. The settings say which channels are configured here."""
    view, incident = found
    events = view.events_of(incident.id)
    if incident.last.seq not in {event.seq for event in events}:
        events.append(incident.last)  # of a command that no process has recorded yet
    alarm = next((e for e in reversed(events) if is_alarm(e)), incident.opened)
    diagnosis = next((e for e in reversed(events) if e.pattern), alarm)
    colour = COLOURS[incident.severity]
    acknowledged_by = view.acknowledged.get(incident.id, [])
    named = Text(f"incident {incident.number} ({incident.id}):", "bold")
    became = f"{title(incident.last)}{notes_of(incident, acknowledged_by)}"
    console.print(beside(named, Text(clean(became), f"bold {colour}")))
    # The numbers below go up to the end of the incident.
    console.print(Text(clean(f"Step {alarm.step}: {alarm.message}")))
    to_do = advice(incident.last, diagnosis)
    if to_do:
        console.print(beside(Text("→", colour), Text(clean(to_do[0]), "bold")))
    began = replace(incident.opened, started=incident.last.started)
    if early_onset(began) is not None:
        console.print(Text(clean(since(began))))
    own = _about_its_own_metric(events)
    peak = _show_curve(console, found, own[-1])
    console.print()
    console.print(Text("What happened", "bold"))
    for event in events:
        text = f"{what_happened(event)}, {event.severity}: {why(event)}".rstrip()
        console.print(labelled(f"step {event.step}", text))
    console.print()
    console.print(Text("Details", "bold"))
    _show_known(console, found, events, own, peak)
    _show_deliveries(console, found, events, settings)


def _about_its_own_metric(events: list[Event]) -> list[Event]:
    """Return the events about the metric that the incident began with.

    An escalation may be about another one, whose values do not compare with its levels.
    """
    return [event for event in events if metric_of(event) == metric_of(events[0])]


def _show_curve(console: Console, found: Found, last: Event) -> float | str:
    """Draw the metric before and during an incident; return its worst value in the incident."""
    metric, incident = metric_of(last), found.incident
    began, end = incident.last.started, incident.last.step
    if incident.was_rolled_back:
        return incident.last.peak  # the rows of these steps are those of another course now
    around = _around(found, metric)
    if incident.is_open and around:
        end = max(end, around[-1][0])
    within = [value for step, value in around if began <= step <= end]
    if not within:
        return incident.last.peak
    console.print()
    console.print(Text(f"{metric}{scale_of(around)}, steps of the incident marked", "bold"))
    marked = (began, end, COLOURS[incident.severity])
    lowest = last.worse == "lower"
    console.print(draw_curve(around, chart_size(console), lowest=lowest, marked=marked))
    if not all(map(math.isfinite, within)):
        return "NaN or infinite"
    first = incident.opened  # its peak may be from before the first alert
    if (metric_of(first), first.worse) == (metric, last.worse) and peak_is_finite(first):
        within.append(float(first.peak))
    return min(within) if lowest else max(within)


def _around(found: Found, metric: str) -> list[Value]:
    """Return the values of a metric in the steps of an incident and in some rows around it."""
    if not metric:
        return []
    began, end = _steps_of(found)
    if metric in found.view.curves and (thinned := _thinned(found, metric)):
        return thinned
    steps, values = found.view.columns_around(began, end, [metric]).points(metric)
    first = int(np.searchsorted(steps, began))
    after = len(steps) if end is None else int(np.searchsorted(steps, end, "right"))
    part = slice(max(0, first - _BEFORE), after + _AFTER)
    return list(zip(steps[part].astype(np.int64).tolist(), values[part].tolist(), strict=True))


def _thinned(found: Found, metric: str) -> list[Value]:
    """Return the same of the run's thinned curve, if the incident is long, else nothing."""
    fold = found.view.fold
    began, end = _steps_of(found)
    first, last = fold.first_step or 0, fold.last_step or 0
    steps_per_row = (last - first) / max(fold.steps - 1, 1)
    end = last if end is None else end
    if end - began <= _MANY_ROWS * steps_per_row:
        return []
    curve = found.view.curves[metric]
    begin, until = began - _BEFORE * steps_per_row, end + _AFTER * steps_per_row
    before = max(0, int(np.searchsorted(curve.steps, begin, "right")) - 1)
    return curve.points[before : int(np.searchsorted(curve.steps, until, "right"))]


def _steps_of(found: Found) -> tuple[int, int | None]:
    """Return the first step of an incident, and the last one if it is over."""
    last = found.incident.last
    return last.started, None if found.incident.is_open else last.step


def _show_known(
    console: Console, found: Found, events: list[Event], own: list[Event], peak: float | str
) -> None:
    latest = list(reversed(events))
    diagnosis = next((event for event in latest if event.pattern), None)
    moved = next((event for event in latest if event.moved), None)
    checkpoint = next((event.checkpoint for event in latest if event.checkpoint), "")
    if diagnosis is not None:
        console.print(labelled("cause", diagnosis.cause))
    if moved is not None:
        console.print(labelled("moved", f"{moved.moved} (as of step {moved.step})"))
    if metric_of(own[-1]):  # otherwise it is the number of steps without a metric
        worst = "peak" if own[-1].worse == "higher" else "lowest"
        console.print(labelled(worst, f"{number(peak)}{_before(own)}"))
    if checkpoint:
        console.print(labelled("go back to", checkpoint))
    detectors = found.incident.last.detectors
    alerts = found.view.alerts_between(*_steps_of(found), detectors=detectors)
    counts = ", ".join(f"{name} {count}" for name, count in alerts.by_detector().items())
    console.print(labelled("alerts", f"{len(alerts)} ({counts})" if counts else "none"))


def _before(own: list[Event]) -> str:
    known = next((event for event in reversed(own) if event.before is not None), None)
    if known is None or known.before is None:
        return ""
    return f" (level {before_it(known)}: {number(known.before)})"


def _show_deliveries(console: Console, found: Found, events: list[Event], settings: Config) -> None:
    view, incident = found
    known = {(event.event, event.step): what_happened(event) for event in events}
    console.print()
    messages = deliveries.by_message(entry for entry in view.deliveries if entry.id == incident.id)
    sent = sum(first.outcome == "sent" for first, *_ in messages)
    console.print(Text(counted(sent, "notification") if sent else "nobody was notified", "bold"))
    for covered in messages:
        last = covered[-1]
        outcome = _OUTCOMES.get(last.outcome, last.outcome)
        merged = " in one message" if len(covered) > 1 and last.outcome in _OUTCOMES else ""
        about = "; ".join(
            f"{known.get((entry.event, entry.step), entry.event)}, step {entry.step}"
            for entry in covered
        )
        text = f"{outcome} at {clock(last.time)}{merged} ({about})"
        text += f": {last.reason}" if last.reason else ""
        console.print(labelled(last.channel, text))
    routes = channels_of(view, settings).routes
    ahead = prospects_of(Run(view.name, view.folder), routes, view.outbox, time.time())
    for channel, verdict in ahead.get(incident.id, {}).items():
        if verdict in _AHEAD:
            console.print(labelled(channel, _AHEAD[verdict]))
