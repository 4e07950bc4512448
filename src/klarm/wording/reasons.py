"""Why an incident changed, as a sentence with the numbers of its event.

Unknown detectors, metrics and signals are shown by their name.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from klarm.incidents import (
    BETTER_HIGH,
    SMALL,
    is_back,
    is_worse,
    measured_by,
    metric_of,
    peak_is_finite,
    stays_away,
)
from klarm.types import Event
from klarm.wording.numbers import counted, number, share, times

_NAMES = {"kl": "KL"}

_IS_ENOUGH = "is enough to open an incident."
# Why alerts did not count, by Excused or SMALL; see evidence.py.
_EXCUSES = {
    "solved": "the reward was near its best and KL was low or not logged",
    "taking_off": "KL was low or not logged",
    "harmless": "KL and reward did not suffer",
    "paid_for": "the reward was holding up and KL was far below its budget",
    SMALL: "KL was still small",
}
_BECOMES_CRITICAL = (
    " This alert is critical; the incident becomes critical if such alerts continue."
)


def why(event: Event) -> str:
    """Return what to say about why an incident changed."""
    said = _reason(event)
    if event.event == "opened" and event.excuse in _EXCUSES:
        said += f" The incident did not open earlier because {_EXCUSES[event.excuse]}."
    if event.event in ("opened", "escalated") and event.severity == "warning":
        more = event.alert_severity == "critical"
        said += _BECOMES_CRITICAL if more else ""
    return said


def _reason(event: Event) -> str:
    sentence = SENTENCES.get(event.reason)
    if sentence is not None:
        return sentence(event)
    text = event.reason.strip()
    return text if not text or text[-1] in ".!?" else f"{text}."


def _confirmed(event: Event) -> str:
    rows = "several" if event.rows is None else event.rows
    counted_rows = "1 row" if rows == 1 else f"{rows} consecutive rows"
    return f"In alert for {counted_rows}.{_follows(event)}"


def _decisive(event: Event) -> str:
    detector = _detector(event)
    alert = f"This {detector} alert" if detector else "This alert"
    return f"{alert} {_IS_ENOUGH}{_follows(event)}"


def _not_finite(event: Event) -> str:
    name = metric_of(event)
    value = f"One NaN or infinite {name}" if name else "One value that is not finite"
    return f"{value} {_IS_ENOUGH}{_follows(event)}"


def _follows(event: Event) -> str:
    number_or_id = event.follows_number or event.follows
    return f" It follows incident {number_or_id}." if number_or_id else ""


def _severity_raised(event: Event) -> str:
    return f"Raised from warning to {event.severity}."


def _far_worse(event: Event) -> str:
    which = "Peak" if event.worse == "higher" else "Lowest value"
    peak, notified = event.peak, event.notified
    if notified is None:
        return f"{which} {number(peak)}."
    # The peak may be many rows old: people are not notified of every higher one.
    step = "" if event.notified_step is None else f" (step {event.notified_step})"
    way = "up"
    if not isinstance(peak, str) and not isinstance(notified, str) and peak < notified:
        way = "down"
    return f"{which} {number(peak)}, {way} from {number(notified)} at the last notification{step}."


def _still_not_finite(event: Event) -> str:
    rows = "several rows" if event.rows is None else counted(event.rows, "row")
    return f"NaN or infinite in {rows} so far."


def _new_kind(event: Event) -> str:
    detector = _detector(event)
    metric = measured_by(detector) or event.metric or event.signal
    if metric == event.subject and event.detectors == [detector]:
        return f"{detector} is in alert in the other direction, too."
    if metric == event.subject:
        return f"Another detector is in alert, too: {detector}."
    return f"Also in alert: {metric} ({detector})."


def _settled(event: Event) -> str:
    name = metric_of(event) or event.signal
    name = _NAMES.get(name, name)
    if event.level is None:
        return f"Alerts have stopped, but {name} has not recovered, so the incident stays open."
    level = f"{number(event.level)}{_against_before(event)}"
    return f"Alerts have stopped, but {name} is still near {level}, so the incident stays open."


def _returned(event: Event) -> str:
    when = "shortly" if event.rows is None else counted(event.rows, "row")
    return f"In alert again {when} after it was resolved."


def _recovered(event: Event) -> str:
    if event.level is None:
        quiet = "" if event.rows is None else f": no alert for {counted(event.rows, 'row')}"
        return f"Recovered{quiet}."
    before = "" if event.before is None else f" ({number(event.before)} {before_it(event)})"
    if not peak_is_finite(event):
        return f"Recovered: {_subject(event)} is finite again, at {number(event.level)}{before}."
    if not is_back(event):
        quiet = "" if event.rows is None else f" for {counted(event.rows, 'row')}"
        level = f"{_subject(event)} is at {number(event.level)}"
        return f"Over: no alert{quiet}. {level}{_why_over(event) or before}."
    return f"Recovered: {_subject(event)} is back at {number(event.level)}{before}."


def before_it(event: Event) -> str:
    """Return when the level before an incident was: a slow rise may have begun long before it."""
    if not peak_is_finite(event):
        return "before"
    fell = event.worse == "lower"
    if event.before is not None and not isinstance(event.peak, str):
        fell = fell or event.peak < min(event.before, 0.0)  # a loss may explode either way
    return "before the fall" if fell else "before the rise"


def _why_over(event: Event) -> str:
    """Return why a metric that is not back at its earlier level counts as recovered."""
    now, before, worst = event.level, event.before, event.peak
    if now is None or before is None or not is_worse(now, before, event.worse):
        return ""
    when = before_it(event)
    if metric_of(event) == BETTER_HIGH and event.worse == "higher":
        return f" ({number(before)} {when}); a higher reward is not a problem in itself"
    kind = (metric_of(event), event.worse)
    if isinstance(worst, str) or stays_away(now, before, worst, kind):
        return ""
    return f", nearer to its level {when} ({number(before)}) than to its worst ({number(worst)})"


def _accepted(event: Event) -> str:
    by = f" by {event.by}" if event.by else ""
    level = "this level" if event.level is None else number(event.level)
    return f"Accepted{by}: {level} is the new normal."


def _closed(event: Event) -> str:
    return f"Closed by {event.by}." if event.by else "Closed."


def _rolled_back(event: Event) -> str:
    if event.event == "resolved":
        return f"Rolled back: training went back to step {event.step}."
    return f"Open again: training went back to step {event.step}, before it was resolved."


def _resumed(event: Event) -> str:
    if event.event == "resolved":  # a crash
        return f"The run was resumed at step {event.step}."
    return "The run was resumed; this incident is still open."


def _crashed(event: Event) -> str:
    if event.event == "opened":
        return "An exception ended the training."
    return "The run failed or was killed with this incident open."


def _against_before(event: Event) -> str:
    """Compare the level of a metric with the one before: as a ratio if both are positive."""
    now, before = event.level, event.before
    if now is None or before is None:
        return ""
    # The ratio of a huge number and a tiny one is infinite, whichever way it is divided.
    if now > 0.0 and before > 0.0 and math.isfinite(max(now, before) / min(now, before)):
        proportion = times(now / before) if now > before else share(before / now)
        if proportion:
            return f", {proportion} its earlier level ({number(before)})"
    return f", compared with {number(before)} before"


def _subject(event: Event) -> str:
    """Return the metric as the first word of a sentence: a plain word is capitalised."""
    name = metric_of(event) or event.signal
    return _NAMES.get(name) or (name.capitalize() if name.isalpha() else name)


def _detector(event: Event) -> str:
    return event.detector or (event.detectors[-1] if event.detectors else "")


# The sentence of each Reason. A test verifies that none is missing.
SENTENCES: dict[str, Callable[[Event], str]] = {
    "confirmed": _confirmed,
    "decisive": _decisive,
    "not_finite": _not_finite,
    "severity_raised": _severity_raised,
    "far_worse": _far_worse,
    "still_not_finite": _still_not_finite,
    "new_kind": _new_kind,
    "settled": _settled,
    "returned": _returned,
    "alert_while_settled": lambda _: (
        "Alerts have started again; the metric is no worse than when they stopped."
    ),
    "resumed": _resumed,
    "back_in_time": lambda event: f"Training went back to step {event.step}, before it settled.",
    "recovered": _recovered,
    "accepted": _accepted,
    "closed": _closed,
    "superseded": lambda _: "Superseded by a new incident.",
    "rolled_back": _rolled_back,
    "lost": lambda _: "No longer watched: its detector is off now, or its record is damaged.",
    "finished": lambda _: "The run ended with this incident open.",
    "crashed": _crashed,
    "interrupted": lambda _: (
        "The run was cut short (Ctrl-C or an early exit) with this incident open."
    ),
}
