"""Renders incidents: titles, lines and panels for the terminal, messages and trackers.

Every text is made from an event alone, so a live run, a replay and the page say the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from klarm.incidents import (
    early_onset,
    is_alarm,
    is_back,
    is_crash,
    is_undone,
    subject_of,
    unsafe_since,
)
from klarm.journal import IncidentRecord
from klarm.types import Action, Event, EventKind, Incident, Severity
from klarm.wording.numbers import counted
from klarm.wording.reasons import SENTENCES, why

if TYPE_CHECKING:
    from rich.console import RenderableType

COLOURS: dict[Severity, str] = {"warning": "yellow", "critical": "red"}
# The summary at the end of a run lists this many incidents; the journal has all of them.
_MAX_NAMED = 10
# The maximum length of the title of a W&B alert.
_MAX_TITLE = 63
UNRESOLVED = "unresolved when the run ended"
AT_A_NEW_LEVEL = "at a new level"  # resolved without alerts, but not back near the earlier level
_STATES: dict[EventKind, str] = {"reopened": "open again", "ended": UNRESOLVED}

# Escalations at the same severity, which may be the highest there is.
_NOT_MORE_SEVERE = {
    "far_worse": "far worse",
    "still_not_finite": "still not finite",
    "new_kind": "further alert",
}


def state(event: Event) -> str:
    """Return the state of an incident in a word or two."""
    if event.event == "escalated" and event.reason in _NOT_MORE_SEVERE:
        return _NOT_MORE_SEVERE[event.reason]
    if event.reason == "alert_while_settled":
        return "in alert again"
    if event.event != "resolved":
        return _STATES.get(event.event, event.event)
    how = ending(event)
    is_known = event.reason in SENTENCES and not is_undone(event)
    return f"resolved ({how})" if is_known else how


def what_happened(event: Event) -> str:
    """Return what happened to an incident in a word or two, before the sentence that says why."""
    return state(event) if is_alarm(event) else event.event


def title(event: Event, became: str = "") -> str:
    """Return one line: what it is about, the severity, since when, the state and the pattern.

    `became` is what to say instead of the state if several events are combined.

    >>> title(Event("opened", 3, "kl", "critical", 153, 148, ["kl_runaway"], 0.8, "", "", "", "k1"))
    'kl critical, began at step 148 (opened at step 153)'
    """
    if is_crash(event):
        return f"crashed after step {event.step}"
    if is_undone(event):
        return f"{subject_of(event)} rolled back, training went back to step {event.step}"
    if event.event == "resolved":
        lasted = f"{event.severity}, steps {event.started} to {event.step}"
        return f"{subject_of(event)} {state(event)}, {lasted}"
    pattern = f", pattern: {event.pattern}" if event.pattern and is_alarm(event) else ""
    what = f"{subject_of(event)} {event.severity}, began at step {event.started}"
    at = "" if event.event == "ended" else f" at step {event.step}"
    return f"{what} ({became or f'{state(event)}{at}'}){pattern}"


def short_title(event: Event) -> str:
    """Return a line of at most 63 characters for the alert of a tracker."""
    what = f"{event.severity} on {subject_of(event)}"
    text = f"klarm: {what} ({state(event)}, incident {event.incident})"
    return text if len(text) <= _MAX_TITLE else text[: _MAX_TITLE - 1] + "…"


def headline(event: Event) -> str:
    """Return the line to read first: the numbers of an alarm, otherwise why it changed."""
    return event.message if is_alarm(event) else why(event)


def advice(event: Event, diagnosis: Event | None = None) -> list[str]:
    """Return the one thing to do first, or an empty list if nothing is left to do.

    The playbook knows what else moved, so its remedy takes precedence over the recommendation of
    the detector. `diagnosis` is the event with the remedy, if this one has none; an alarm without
    one has its own recommendation, which may be for a higher severity.
    """
    if event.event == "resolved" and (event.recovered or event.reason in SENTENCES):
        return []
    remedy, action = event.remedy, event.action
    if diagnosis is not None and not is_alarm(event) and not remedy:
        remedy, action = diagnosis.remedy, diagnosis.action
    to_do = remedy or event.recommendation
    if event.event == "ended" and event.metric:
        return [_after_the_run(event, diagnosis, to_do, action)]
    return [to_do] if to_do else []


def _after_the_run(event: Event, diagnosis: Event | None, to_do: str, action: Action) -> str:
    """Return what to do with a run that has ended: nothing is left to be stopped or watched."""
    first = min(unsafe_since(known) for known in (event, diagnosis) if known is not None)
    saved = f"checkpoints that were saved since step {first}"
    is_bad = (event.severity == "critical" or event.beside_critical) and action != "wait"
    if action in ("go_back", "go_back_before_step"):  # which also says what to change
        is_said = action == "go_back_before_step" and first == unsafe_since(event)
        return f"Do not use {saved}. {to_do}" if is_bad and not is_said else to_do
    if is_bad:
        return f"Do not use {saved}: go back to an earlier one."
    return f"Evaluate {saved} before you use them."


def event_text(event: Event) -> str:
    """Return an event as lines: in full when an incident opens, later in short."""
    head = f"klarm INCIDENT {_place(event)}"
    if not is_alarm(event):
        # The state of a run that ended says it all.
        return head if event.reason == "finished" else f"{head}. {why(event)}"
    (first, *rest), to_do, details = _parts(event)
    return "\n  ".join([f"{head}: {first}", *rest, *(f"-> {text}" for text in to_do), *details])


def event_panel(event: Event) -> RenderableType:
    """Return an opened or escalated incident as a rich panel."""
    from rich.panel import Panel
    from rich.text import Text

    colour = COLOURS[event.severity]
    (first, *rest), to_do, details = _parts(event)
    body = Text.assemble((first, "bold"), *(f"\n{line}" for line in rest))
    for text in to_do:
        body.append("\n→ ", colour).append(text, "bold")
    for line in details:
        body.append(f"\n{line}")
    heading = Text(f"klarm incident {_place(event)}", f"bold {colour}")
    return Panel(body, title=heading, title_align="left", border_style=colour)


def event_paragraphs(event: Event) -> str:
    """Return an opened or escalated incident as the text of a tracker's alert."""
    (first, *rest), to_do, details = _parts(event)
    lines = [f"Step {event.step}: {first}", *rest, *(f"To do: {text}" for text in to_do)]
    return "\n".join([*lines, *details])


def incidents_in_sum(incidents: Iterable[Incident], where: str = "") -> str:
    """Summarise the incidents of a run, in the order of their numbers: one line for each.

    `where` says where to find more about them, if there are any.
    """
    opened = [incident for incident in incidents if incident.opened is not None]
    opened.sort(key=lambda incident: incident.number)
    if not opened:
        return "no incident"
    named = [_in_short(incident) for incident in opened[-_MAX_NAMED:]]
    if earlier := len(opened) - len(named):
        named.insert(0, counted(earlier, "earlier incident"))
    return "\n  ".join([f"{counted(len(opened), 'incident')}{where}", *named])


def _place(event: Event) -> str:
    """Return the beginning of a line: number, subject, state, severity and step."""
    what = f"{event.incident} on {subject_of(event)}"
    if is_alarm(event):
        return f"{what} {state(event)}, {event.severity}, step {event.step}"
    began = f"{event.severity}, began at step {event.started}"
    if is_undone(event):  # training may have gone back to long before it began
        return f"{what} ({began})"
    # The sentence that follows says how it was resolved.
    became = "resolved" if event.event == "resolved" else state(event)
    return f"{what} {became} at step {event.step} ({began})"


def since(event: Event) -> str:
    """Return a sentence with the step of the first alert and, if that was late, the onset.

    >>> since(Event("opened", 3, "kl", "critical", 228, 223, [], 0.8, "", "", "", "k1"))
    'Since step 223.'
    """
    first = "In alert since" if what_began(event) else "Since"
    more = f"; {earlier}" if (earlier := before_it_began(event)) else ""
    return f"{first} step {event.started}{more}."


def what_began(event: Event) -> str:
    """Return what happened at the step since which an incident lasts, if another is named, too."""
    is_first = event.ignored_since is None and early_onset(event) is not None
    return "first row in alert" if is_first else ""


def before_it_began(event: Event) -> str:
    """Return what happened before the step since which an incident lasts, if that was long before.

    >>> event = Event("opened", 3, "kl", "critical", 223, 223, [], 0.8, "", "", "", "k1", onset=204)
    >>> before_it_began(event)
    'in hindsight, kl left its normal range at step 204'
    """
    if event.ignored_since is not None:
        return f"alerts from step {event.ignored_since} on were ignored"
    onset = early_onset(event)
    if onset is None:
        return ""
    return f"in hindsight, {subject_of(event)} left its normal range at step {onset}"


def _parts(event: Event) -> tuple[list[str], list[str], list[str]]:
    """Return three parts: what happened and since when, what to do first, and the details."""
    opens = event.event == "opened"
    happened = [event.message, f"{since(event)} {why(event)}".rstrip()]
    if not opens and event.subject and event.metric not in ("", event.subject):
        # The message is not about the metric in the heading.
        happened = [why(event), event.message, since(event)]
    if event.pattern:
        happened.append(f"Likely cause: {event.cause}.")
    details = [f"Last good checkpoint: {event.checkpoint}"] if event.checkpoint else []
    if opens and event.moved:
        details.append(f"Also moved: {event.moved}.")
    return happened, advice(event), details


def _in_short(incident: Incident) -> str:
    still = "unresolved" if incident.state == "ended" else "still open"
    when = f"began at step {incident.started}, {still}"
    if incident.state == "resolved":
        how = incident.reason.replace("_", " ")
        if how == "recovered":
            how = f"resolved {AT_A_NEW_LEVEL}" if incident.at_new_level else how
        when = f"steps {incident.started} to {incident.ended}, {how}"
    return f"{incident.number} on {subject_of(incident)}: {incident.severity}, {when}"


def standing(incident: IncidentRecord, *, may_go_on: bool) -> str:
    """Return the state of a recorded incident, or how it was resolved.

    `may_go_on` says that its run is training, or may be.
    """
    if incident.state != "resolved":
        return incident.state if may_go_on else UNRESOLVED
    how = ending(incident.last)
    return f"resolved ({how})" if how == AT_A_NEW_LEVEL else how


def ending(event: Event) -> str:
    """Return how an incident was resolved, given the event of its end.

    >>> end = Event("resolved", 3, "reward", "warning", 250, 200, ["reward_drift"], 1.8,
    ...             "recovered", "", "", "k3f7q2ab", metric="reward", level=1.74, before=0.4)
    >>> ending(end)
    'at a new level'
    """
    if is_undone(event):
        return "rolled back"
    if event.reason == "recovered" and not is_back(event):
        return AT_A_NEW_LEVEL
    return event.reason.replace("_", " ")
