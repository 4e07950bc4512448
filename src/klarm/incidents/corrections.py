"""Corrections: what people must be told after a rollback or a crash, when a run was rebuilt.

The incidents in a journal are compared with those that its rows give when they are processed again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec.structs import replace

from klarm.incidents.event_facts import is_crash
from klarm.incidents.signal_tracker import Identity, SignalTracker
from klarm.journal import IncidentRecord
from klarm.types import METRIC_AFTER, SEVERITIES, Event, Incident, Reason, Resolution

Place = tuple[str, int, int]  # signal, first step and step of the opening of an incident
# Gives an incident a new identity, at a step, as the one that follows an id.
Renew = Callable[[Incident, int, str], None]


def known_identities(recorded: Iterable[IncidentRecord]) -> dict[Place, Identity]:
    """Return the identities of the incidents of a journal, by where they opened."""
    known: dict[Place, Identity] = {}
    places: dict[str, Place] = {}
    for record in recorded:
        opened = record.opened
        place = (opened.signal, opened.started, opened.step)
        if opened.reason == "rolled_back":
            # It opened at the step that training went back to, but it has the rows of the incident
            # that it follows.
            place = places.get(opened.follows, place)
        places[record.id] = place
        if not record.was_rolled_back:
            known[place] = record.id, record.number, opened.follows
    return known


def corrections(
    step: int,
    recorded: Iterable[IncidentRecord],
    current: dict[str, SignalTracker],
    ends: Mapping[str, Event],
    *,
    undone: bool,
    renew: Renew,
) -> list[Event]:
    """Return the events that correct the recorded incidents.

    `current` has the signals with an open incident, by its id. `ends` has the ends of incidents
    from processing their rows again; `undone` says that some rows no longer count.
    """
    recorded = list(recorded)
    if not undone:
        _adopt(current, recorded, ends)
    news: list[Event] = []
    for record in recorded:
        signal = current.pop(record.id, None)
        if record.state == "resolved":
            if signal is not None and record.reason != "rolled_back":
                news.append(_ended_too_early(signal, step, record, renew, undone=undone))
        elif signal is not None:
            news += _corrected_state(signal, step, record, undone=undone)
        elif record.id in ends:
            # After a rollback with the current step: an earlier end may have been undone.
            end = ends[record.id]
            news.append(replace(end, step=step) if undone else end)
        elif is_crash(record.opened):
            news.append(_resolved(record.last, step, "resumed"))
        else:
            news.append(_resolved(record.last, step, "rolled_back" if undone else "lost"))
    return [*news, *(signal.restate(step, "confirmed") for signal in current.values())]


def _adopt(
    current: dict[str, SignalTracker], recorded: Sequence[IncidentRecord], ends: Mapping[str, Event]
) -> None:
    """Give incidents the ids that people know, where they opened at another step this time.

    That happens if a line is damaged or if a setting has changed.
    """
    known = {record.id for record in recorded}
    for record in recorded:
        if record.state == "resolved" or record.id in current or record.id in ends:
            continue
        if is_crash(record.opened):
            continue
        for id_, signal in tuple(current.items()):
            episode = signal.episode
            if id_ not in known and episode is not None and signal.name == record.signal:
                episode.incident.id, episode.incident.number = record.id, record.number
                current[record.id] = current.pop(id_)
                break


def _ended_too_early(
    signal: SignalTracker, step: int, record: IncidentRecord, renew: Renew, *, undone: bool
) -> Event:
    """Return the event for an incident that was reported as resolved, but is open."""
    if not undone:  # the settings or klarm itself changed: no reason to notify anybody
        return signal.restate(step, "resumed")
    # Training went back to before its end. It gets a new id, so that people are notified.
    assert signal.episode is not None
    renew(signal.episode.incident, step, record.id)
    return signal.restate(step, "rolled_back")


def _corrected_state(
    signal: SignalTracker, step: int, record: IncidentRecord, *, undone: bool
) -> list[Event]:
    assert signal.episode is not None
    incident = signal.episode.incident
    if SEVERITIES.index(incident.severity) > SEVERITIES.index(record.severity):
        return [signal.restate(step, "severity_raised")]
    if record.state == "ended":
        return [signal.restate(step, "resumed")]
    if record.state != incident.state:
        reason: Reason = "back_in_time" if undone else "alert_while_settled"
        return [signal.restate(step, reason)]
    return []


def _resolved(event: Event, step: int, reason: Resolution) -> Event:
    """Return the end of an incident that is no longer followed."""
    return replace(
        event,
        event="resolved",
        step=step,
        reason=reason,
        recovered=METRIC_AFTER[reason] in ("normal", "undone"),
        also=(),
        pattern="",
        cause="",
        remedy="",
        action="",
        checkpoint="",
    )
