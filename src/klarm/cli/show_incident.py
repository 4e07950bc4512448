"""Shows one incident: what happened, what to do, its curve and who was notified."""

from __future__ import annotations

import contextlib
import math
import time
from collections import Counter, deque
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from klarm.cli.curve import Curve, Value, draw_curve, scale_of
from klarm.cli.recorded import acknowledged_in
from klarm.cli.run_channels import channels_of
from klarm.cli.show import beside, chart_size, clock, heading, labelled, notes_of
from klarm.cli.which import Found
from klarm.config import Config
from klarm.delivery import Delivered, Outbox, Run, Verdict, deliveries, prospects_of
from klarm.incidents import early_onset, is_alarm, metric_of, peak_is_finite
from klarm.journal import (
    FILE_NAME,
    IncidentRecord,
    read_journal,
    recorded_events,
    surviving_rows,
)
from klarm.text import clean
from klarm.types import Alert, Command, Event
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
_OUTCOMES = {"sent": "notified", "refused": "rejected"}
_AHEAD: Mapping[Verdict, str] = {"send": "pending", "wait": "held back until the silence ends"}


def show_incident(console: Console, found: Found, settings: Config) -> None:
    """Show an incident of a run. The settings say which channels are configured here."""
    from rich.text import Text

    folder, incident = found.folder, found.incident
    journal = folder / FILE_NAME
    events = [e for _, _, e in recorded_events(journal) if e.id == incident.id]
    events = events or [incident.last]
    alarm = next((e for e in reversed(events) if is_alarm(e)), incident.opened)
    diagnosis = next((e for e in reversed(events) if e.pattern), alarm)
    colour = COLOURS[incident.severity]
    acknowledged_by = acknowledged_in(folder).get(incident.id, [])
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
    peak = _show_curve(console, folder, incident, _about_its_own_metric(events))
    console.print()
    console.print(heading("What happened"))
    for event in events:
        text = f"{what_happened(event)}, {event.severity}: {why(event)}".rstrip()
        console.print(labelled(f"step {event.step}", text))
    console.print()
    console.print(heading("Details"))
    _show_known(console, journal, incident, events, peak)
    _show_deliveries(console, found, events, settings)


def _about_its_own_metric(events: list[Event]) -> Event:
    """Return the last event about the metric that the incident began with.

    An escalation may be about another one, whose values do not compare with its levels.
    """
    first = events[0]
    return next(event for event in reversed(events) if metric_of(event) == metric_of(first))


def _show_curve(
    console: Console, folder: Path, incident: IncidentRecord, last: Event
) -> float | str:
    """Draw the metric before and during an incident; return its worst value in the incident."""
    metric = metric_of(last)
    began, end = incident.last.started, incident.last.step
    around = _around(folder / FILE_NAME, metric, began, None if incident.is_open else end)
    if incident.is_open and around:
        end = max(end, around[-1][0])
    within = [value for step, value in around if began <= step <= end]
    if not within:
        return incident.last.peak
    console.print()
    console.print(heading(f"{metric}{scale_of(around)}, steps of the incident marked"))
    marked = (began, end, COLOURS[incident.severity])
    lowest = last.worse == "lower"
    console.print(draw_curve(around, chart_size(console), lowest=lowest, marked=marked))
    if not all(map(math.isfinite, within)):
        return "NaN or infinite"
    first = incident.opened  # its peak may be from before the first alert
    if (metric_of(first), first.worse) == (metric, last.worse) and peak_is_finite(first):
        within.append(float(first.peak))
    return min(within) if lowest else max(within)


def _around(journal: Path, metric: str, began: int, end: int | None) -> list[Value]:
    """Return the values of a metric in the steps of an incident and in some rows around it."""
    before: deque[Value] = deque(maxlen=_BEFORE)
    within = Curve(metric)
    after: list[Value] = []
    for entry in surviving_rows(journal, [metric]) if metric else ():
        if isinstance(entry, Command) or metric not in entry[1]:
            continue
        step, value = entry[0], entry[1][metric]
        if step < began:
            before.append((step, value))
        elif end is None or step <= end:
            within.add(step, value)
        elif len(after) < _AFTER:
            after.append((step, value))
    return [*before, *within.points, *after]


def _show_known(
    console: Console,
    journal: Path,
    incident: IncidentRecord,
    events: list[Event],
    peak: float | str,
) -> None:
    latest = list(reversed(events))
    diagnosis = next((event for event in latest if event.pattern), None)
    moved = next((event for event in latest if event.moved), None)
    checkpoint = next((event.checkpoint for event in latest if event.checkpoint), "")
    if diagnosis is not None:
        console.print(labelled("cause", diagnosis.cause))
    if moved is not None:
        console.print(labelled("moved", f"{moved.moved} (as of step {moved.step})"))
    last = _about_its_own_metric(events)
    if metric_of(last):  # otherwise it is the number of steps without a metric
        worst = "peak" if last.worse == "higher" else "lowest"
        console.print(labelled(worst, f"{number(peak)}{_before(events)}"))
    if checkpoint:
        console.print(labelled("go back to", checkpoint))
    by_detector = _alerts(journal, incident)
    counts = ", ".join(f"{name} {count}" for name, count in by_detector.items())
    total = f"{sum(by_detector.values())} ({counts})" if counts else "none"
    console.print(labelled("alerts", total))


def _before(events: list[Event]) -> str:
    metric = metric_of(events[0])
    own = (event for event in reversed(events) if metric_of(event) == metric)
    known = next((event for event in own if event.before is not None), None)
    if known is None or known.before is None:
        return ""
    when = before_it(known)
    return f" (level {when}: {number(known.before)})"


def _alerts(journal: Path, incident: IncidentRecord) -> Counter[str]:
    """Count the alerts of an incident by detector, matched by step and detector."""
    found: Counter[str] = Counter()
    for record in read_journal(journal):
        if isinstance(record, Alert) and record.detector in incident.last.detectors:
            is_over = not incident.is_open and record.step > incident.last.step
            if record.step >= incident.last.started and not is_over:
                found[record.detector] += 1
    return found


def _show_deliveries(console: Console, found: Found, events: list[Event], settings: Config) -> None:
    folder, incident = found.folder, found.incident
    known = {(event.event, event.step): what_happened(event) for event in events}
    entries: list[Delivered] = []
    with contextlib.suppress(OSError):
        entries = [entry for _, entry in deliveries.read(folder) if isinstance(entry, Delivered)]
    console.print()
    messages = deliveries.by_message(entry for entry in entries if entry.id == incident.id)
    sent = sum(first.outcome == "sent" for first, *_ in messages)
    console.print(heading(counted(sent, "notification") if sent else "nobody was notified"))
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
    outbox = Outbox(folder)
    outbox.refresh()
    routes = channels_of(folder, entries, settings).routes
    ahead = prospects_of(Run(found.fold.run, folder), routes, outbox, time.time())
    for channel, verdict in ahead.get(incident.id, {}).items():
        if verdict in _AHEAD:
            console.print(labelled(channel, _AHEAD[verdict]))
