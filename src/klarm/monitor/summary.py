"""A run in a few words: at its end on the console, and in a notebook at any time."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence, Set
from pathlib import Path

from klarm.detectors import Detector, Excused
from klarm.incidents import IncidentRules, subject_of
from klarm.journal import IncidentRecord
from klarm.notebook import html_table
from klarm.types import Incident
from klarm.wording import counted, incidents_in_sum

# While what alerts do not count; see incidents/evidence.py.
_EXCUSES: Mapping[Excused, str] = {
    "solved": "the reward is near its best and KL is low or not logged",
    "taking_off": "KL is low or not logged",
    "harmless": "KL and reward do not suffer",
    "paid_for": "the reward rises along with KL, or while KL is small",
}


def incidents_and_where(incidents: Sequence[Incident], folder: Path | None) -> str:
    """Return how many incidents there were, and the command that shows them."""
    where = "" if folder is None else f"; see klarm incidents {shlex.quote(str(folder))}"
    return incidents_in_sum(incidents, where)


def as_of(run: str, step: int, new_rows: int) -> str:
    """Return the beginning of a line about a run that may go on.

    >>> as_of("a", 100, 1)
    'run a as of step 100 (1 new row)'
    """
    return f"run {run} as of step {step} ({counted(new_rows, 'new row')})"


def left_open(
    run: str, step: int | None, incidents: Iterable[Incident | IncidentRecord], folder: Path | None
) -> str:
    """Return a line for when klarm stops watching a run that goes on."""
    at = "" if step is None else f" at step {step}"
    which = still_open(incidents)
    if not which:
        return f"stopped following run {run}{at}; no incident is open"
    where = "" if folder is None else f"; see klarm incidents {shlex.quote(str(folder))}"
    return f"stopped following run {run}{at}; {which}{where}"


def still_open(incidents: Iterable[Incident | IncidentRecord]) -> str:
    """Return which of these incidents are still open; empty if none is."""
    named = [f"{known.number} on {subject_of(known)}" for known in incidents if known.is_open]
    if not named:
        return ""
    if len(named) == 1:
        return f"incident {named[0]} is still open"
    return f"incidents {', '.join(named)} are still open"


def why_no_incident(
    alerts: Mapping[str, int],
    excused: Mapping[str, int],
    detectors: Iterable[Detector],
    rules: IncidentRules,
    *,
    decisive: Set[str] = frozenset(),
) -> list[str]:
    """Return why alerts, counted by detector, opened no incident, a line for each detector.

    Those of a detector were too few, or other signals excused them. One of a detector in
    `decisive` would have been enough.
    """
    known = [detector for detector in detectors if alerts.get(detector.name)]
    few, others = [], []
    for detector in known:
        name, needed = detector.name, detector.confirm_steps or rules.confirm_steps
        if name not in decisive and alerts[name] < needed:
            few.append((name, needed))
        elif excused.get(name) and detector.excuse in _EXCUSES:
            others.append((name, f"while {_EXCUSES[detector.excuse]}"))
    return [
        *(f"{name} needs {rows} consecutive rows with an alert" for name, rows in few),
        *(f"{name} alerts are ignored {when}" for name, when in others),
    ]


def alerts_in_sum(
    counts: Mapping[str, int], folder: Path | None, why: Iterable[str] = (), since: str = ""
) -> str:
    """Return how many alerts there were, and how to see those that were not shown.

    `why` says why they opened no incident, `since` what the number counts.
    """
    reasons = list(why)
    said = f"{counted(sum(counts.values()), 'alert')} ({counts['critical']} critical){since}"
    if reasons:
        said += " opened no incident"
    if folder is not None:
        them = "it" if sum(counts.values()) == 1 else "them"
        said += f"; list {them} with: klarm replay {shlex.quote(str(folder))} --alerts"
    return "\n  ".join([said, *reasons])


def notebook_table(run: str, logged: int, state: str, incidents: Sequence[Incident]) -> str:
    """Return a run and its incidents as an HTML table."""
    rows = [("rows", f"{logged} in this process"), ("state", state)]
    for incident in sorted(incidents, key=lambda incident: incident.number):
        if incident.opened is not None:
            until = "now" if incident.ended is None else str(incident.ended)
            what = f"{subject_of(incident)} {incident.severity}"
            rows.append(
                (
                    f"incident {incident.number}",
                    f"{what}, steps {incident.started} to {until}: {incident.worst.message}",
                )
            )
    return html_table(f"klarm run {run}", rows)
