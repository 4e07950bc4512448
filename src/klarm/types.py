"""The types that every part of klarm shares: Alert, Incident, Event, Command."""

from __future__ import annotations

from typing import Literal

import msgspec

from klarm.notebook import html_table

Severity = Literal["warning", "critical"]
"""How bad an alert, an incident or an event is."""
# How a metric is bad: for entropy, lower is worse; any may be NaN, or no longer be logged.
Worse = Literal["higher", "lower", "not_finite", "missing", "stuck"]
SEVERITIES: tuple[Severity, ...] = ("warning", "critical")  # the worse the later


class Alert(msgspec.Struct, frozen=True, tag_field="type", tag="alert", kw_only=True):
    """What one detector reports at one step, as facts. It is a line of the journal.

    Its sentences are made when somebody reads them: the detector declares them.
    """

    detector: str
    severity: Severity
    step: int
    metric: str  # the one that is judged
    worse: Worse = "higher"
    metrics: dict[str, float | str]  # its value and the other facts, by name
    # Whether it opens an incident at once, without confirmation by further steps.
    decisive: bool = False
    names: tuple[str, ...] = ()  # the metrics that are missing or stuck
    case: str = ""  # which of the detector's sentences says it; empty: that of the severity
    framework: str = ""  # whose words the recommendation is in, if it has any of its own

    @property
    def message(self) -> str:
        """What has happened, in a sentence."""
        return self.said()

    def said(self, *, with_limit: bool = True) -> str:
        """Return what has happened; without the limit, where another severity is shown."""
        from klarm.wording import message_of_alert

        return message_of_alert(self, with_limit=with_limit)

    @property
    def recommendation(self) -> str:
        """What to do."""
        return self.advice(self.severity)

    def advice(self, severity: Severity) -> str:
        """Return what to do at a severity, which may be higher than that of the alert."""
        from klarm.wording import recommendation_of

        return recommendation_of(self, severity)


State = Literal["pending", "open", "settled", "resolved", "ended"]


class Incident(msgspec.Struct):
    """One episode on one signal, beginning with its first alert. Only the tracker changes it.

    An incident is pending until it is confirmed, then open, perhaps settled at a broken level, and
    finally resolved. A pending one that goes quiet was a blip, and nobody is notified.
    """

    signal: str
    metric: str  # the metric of its first alert
    # The step of its first alert; of a lost metric, since when it is missing or stuck.
    started: int
    state: State
    severity: Severity  # the highest confirmed or decisive one; while pending, the highest of all
    detectors: list[str]  # in the order of their first alerts
    alerts: int  # how many
    last_alert: int  # the step of the latest
    worst: Alert  # the one that the last notification was about
    peak: float  # the worst value of the metric
    worse: Worse  # which that is
    id: str = ""  # unique across runs; empty until it opens
    number: int = 0  # its number among the opened incidents of the run, from 1
    opened: int | None = None  # the steps at which it changed
    ended: int | None = None
    onset: int | None = None  # the step at which its metric left its normal range, in hindsight
    onset_rows: int = 0  # the number of rows from there to its first alert
    # The step from which on checkpoints are unsafe, if that is before the onset and `started`.
    unsafe_from: int | None = None
    # The first of the alerts before it that other signals had excused for long; see `started`.
    ignored_since: int | None = None
    excuse: str = ""  # why its first alerts did not count; empty if they did
    reason: str = ""  # how it was resolved: a Reason
    level: float | None = None  # the level at which its metric has settled
    follows: str = ""  # the id of the incident that it supersedes
    by: str = ""  # who closed or accepted it
    # If somebody closed it: the step at which its metric had recovered, which may be later.
    back: int | None = None
    # If it is resolved as recovered: whether its metric is far from its earlier level.
    at_new_level: bool = False
    # What it is named by: its metric; "missing kl" or "stuck kl" if a metric is lost.
    subject: str = ""

    @property
    def is_open(self) -> bool:
        """Whether it is not resolved. One that has settled, or that the run ended with, is open."""
        return self.state in ("open", "settled", "ended")

    def _repr_html_(self) -> str:
        """Return the HTML that a notebook shows."""
        from klarm.wording import number

        how = "at a new level" if self.at_new_level else self.reason.replace("_", " ")
        rows = [
            ("state", f"{self.state} ({how})" if how else self.state),
            ("severity", self.severity),
            ("steps", f"{self.started} to {'now' if self.ended is None else self.ended}"),
            ("detectors", ", ".join(self.detectors)),
            ("message", self.worst.message),
            ("to do", self.worst.recommendation),
        ]
        if self.subject in ("", self.metric):  # otherwise it counts the steps of a lost metric
            rows.insert(3, ("peak", f"{self.metric} {number(self.peak, 4)}"))
        name = f"klarm incident {self.number or ''} on {self.subject or self.signal}"
        return html_table(name, rows)


Direction = Literal["up", "down", "flat", "broken"]
# How a movement is told: with its step and how far it went; with its step alone, where the alert
# says how far; over the rows looked at; as no news; or as none at all.
Telling = Literal["dated", "in_alert", "gradual", "as_before", "flat"]


class Moved(msgspec.Struct, frozen=True, omit_defaults=True):
    """How one metric went besides those that an incident is about, as facts."""

    metric: str
    way: Direction
    told: Telling = "dated"
    key: str = ""  # what the user calls the metric, if that is another name
    step: int | None = None  # since when
    is_earlier: bool = False  # before the incident, or its cause, began
    rows: int | None = None  # if it has no step: over how many rows
    # Its level before, and the furthest; instead, by how much it was multiplied, where that means
    # something. None if unknown.
    before: float | None = None
    reached: float | None = None
    ratio: float | None = None
    # If it has turned back: which way it goes now, its level, and that as a ratio.
    turned: Direction | None = None
    now: float | None = None
    now_ratio: float | None = None
    is_part: bool = False  # one of several rewards, and such


EventKind = Literal["opened", "escalated", "settled", "reopened", "resolved", "ended"]
# Those that people are notified of; the others edit an earlier message, where a channel can.
RINGING: tuple[EventKind, ...] = ("opened", "escalated", "resolved")

# How an incident is resolved. Each needs an entry in METRIC_AFTER, which a test checks.
Resolution = Literal[
    "recovered",
    "accepted",  # its level is the new normal
    "closed",  # by a person
    "superseded",  # by the incident that follows it
    "rolled_back",  # training went back to before it began, or, if it opens, to before its end
    "lost",  # its detector is disabled by now, or its rows cannot be read
    "resumed",  # the run was resumed: this resolves the incident of a crash, and reopens others
]
# What a resolution says about the metric of the incident.
# - normal: it is back to normal.
# - accepted: its level counts as normal from now on.
# - bad: it may still be bad, so checkpoints are unsafe until it is back to normal.
# - followed: the incident that follows tells.
# - undone: training went back, and the incident no longer counts.
MetricAfter = Literal["normal", "accepted", "bad", "followed", "undone"]
METRIC_AFTER: dict[str, MetricAfter] = {
    "recovered": "normal",
    "accepted": "accepted",
    "closed": "bad",
    "superseded": "followed",
    "rolled_back": "undone",
    "lost": "bad",
    "resumed": "normal",
}

Reason = Literal[
    # why an incident opens
    "confirmed",  # the signal was in alert for `rows` consecutive rows
    "decisive",  # its detector needs no further confirmation
    "not_finite",  # a value that is NaN or infinite
    # why it escalates
    "severity_raised",  # the severity rose
    "far_worse",  # the peak is many times that of the last notification
    "still_not_finite",  # values were NaN or infinite in `rows` rows of the incident
    "new_kind",  # another detector, metric or direction on the same signal
    # why it settles: it is quiet at a broken level
    "settled",
    # why it reopens
    "returned",  # the trouble came back soon after its recovery
    "alert_while_settled",
    "back_in_time",  # training went back to before it had settled
    Resolution,
    # how the run ended while it was open
    "finished",
    "crashed",  # also why the incident of a crash opens
    "interrupted",
]


# What the remedy of an event begins with: to look at the next rows, or to go back to a checkpoint,
# which it may describe by its step.
Action = Literal["", "wait", "go_back", "go_back_before_step"]


class Event(msgspec.Struct, frozen=True, tag_field="type", tag="event"):
    """A change of an incident. Encoded with its tag, it is a line of the journal."""

    event: EventKind
    incident: int  # the number of the incident within the run, for people
    signal: str
    severity: Severity
    step: int
    started: int
    detectors: list[str]
    peak: float | str
    reason: str  # a Reason
    message: str
    recommendation: str
    id: str  # of the incident, unique across runs
    # If it opened or escalated: what else had moved, and the matching pattern of the playbook. The
    # pattern is repeated when it escalates and none fits, when it settles and when the run ends.
    also: tuple[Moved, ...] = ()
    also_step: int | None = None  # until when that was seen, if one message tells of later events
    pattern: str = ""
    cause: str = ""
    remedy: str = ""
    action: Action = ""
    # If it opened or escalated: the step at which its metric left its normal range, in hindsight,
    # and the last good checkpoint before that step, which is repeated like the pattern.
    onset: int | None = None
    checkpoint: str = ""
    # The step from which on checkpoints are unsafe, if that is before the onset and `started`.
    unsafe_from: int | None = None
    # If it is resolved: false if it only went quiet and its metric is as bad as before.
    recovered: bool = True
    # Its number among the events of the incident, from 1, given when it is recorded. With the id it
    # identifies the event for good, across rollbacks and processes.
    seq: int = 0
    # The metric of the peak; empty if its detector watches every metric.
    metric: str = ""
    worse: Worse = "higher"
    rows: int | None = None  # in alert when it opened, or quiet when it settled or was resolved
    level: float | None = None  # the current level of the metric, once it is quiet
    before: float | None = None  # its level before the incident
    # If it is far worse: the peak at the last notification, and the step of that.
    notified: float | str | None = None
    follows: str = ""  # the id of the incident that this one supersedes
    by: str = ""  # who closed it
    detector: str = ""  # whose message it is
    # The severity of the alert with this message. An incident is less severe until it is confirmed.
    alert_severity: Severity | None = None
    # What the incident is named by, the same in all its events: the metric of its first alert,
    # "missing kl" or "stuck kl" if a metric is lost, or "crash".
    subject: str = ""
    # The number of rows from the onset to the first alert.
    onset_rows: int | None = None
    # The step since which its metric had been in alert, if those alerts were ignored for long.
    ignored_since: int | None = None
    notified_step: int | None = None
    # Why its first alerts did not count: an Excused of detectors/base.py, or empty if they did.
    excuse: str = ""
    # If it opened, escalated or ended with the run: whether another one was open and critical.
    beside_critical: bool = False
    follows_number: int | None = None  # the number of the incident `follows`

    @property
    def moved(self) -> str:
        """What else had moved, in one line."""
        from klarm.wording import what_moved

        return what_moved(self.also, self.also_step)


class Blip(msgspec.Struct, frozen=True, tag_field="type", tag="blip"):
    """An incident that never opened. It is recorded, and nobody is notified."""

    signal: str
    severity: Severity
    started: int
    step: int
    detectors: list[str]
    peak: float | str


CommandKind = Literal["ack", "ack_off", "close", "accept", "silence", "silence_off"]


class Command(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="command"):
    """What a person asks of a run from outside, with `klarm ack`, `close` or `silence`.

    It is a line of commands.jsonl, and of the journal once the run has applied it: before the row
    of `step`.
    """

    command: CommandKind
    key: str  # unique, so that it is applied once
    time: float
    by: str
    incident: str = ""  # an incident's id: ack, ack_off, close, accept
    signal: str = ""  # silence, silence_off
    until_step: int | None = None
    until_time: float | None = None
    even_critical: bool = False
    step: int | None = None
    lines: int = 0  # in a journal: how many of the following lines belong to it
