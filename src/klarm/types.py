"""The words every part of klarm shares: Alert, Incident, Event, Command."""

from __future__ import annotations

from typing import Literal

import msgspec

from klarm.notebook import html_table

Severity = Literal["warning", "critical"]
# Where the trouble lies: entropy that collapses is the worse the lower it is.
Worse = Literal["higher", "lower"]
SEVERITIES: tuple[Severity, ...] = ("warning", "critical")  # the worse the later


class Alert(msgspec.Struct, frozen=True, tag_field="type", tag="alert"):
    """What one detector says at one step.

    The tag makes an alert a journal line as it stands.
    """

    detector: str
    severity: Severity
    step: int
    message: str
    metrics: dict[str, float | str]
    recommendation: str
    # Whether it needs no confirmation by further steps to be believed.
    decisive: bool = False
    # Which of two values of its metric is the worse one.
    worse: Worse = "higher"


State = Literal["pending", "open", "settled", "resolved", "ended"]


class Incident(msgspec.Struct):
    """One episode on one signal, from its first alert on. The tracker alone changes it.

    Pending until it is believed; then open, perhaps settled at a broken level, and in the end
    resolved. One that goes quiet while it is pending was a blip: nobody is notified.
    """

    signal: str
    metric: str  # that was alarmed about first
    started: int  # the step of its first alert
    state: State
    severity: Severity  # the highest that is confirmed or decisive; while pending, the highest
    detectors: list[str]  # in the order in which they first spoke
    alerts: int  # how many
    last_alert: int  # the step of the latest
    worst: Alert  # the one whose message people were last notified with
    peak: float  # the worst value of the metric
    worse: Worse  # which that is
    id: str = ""  # unique for good, once it has opened
    number: int = 0  # counts the incidents of a run that were opened, from 1
    opened: int | None = None  # the steps at which it changed
    ended: int | None = None
    onset: int | None = None  # the step at which its metric had left what was normal, looking back
    reason: str = ""  # how it was resolved: a Reason
    level: float | None = None  # where its metric has settled
    follows: str = ""  # the id of the incident that it supersedes
    by: str = ""  # who closed or accepted it
    # If somebody closed it: the step at which its metric was back. Closing does not bring it back.
    back: int | None = None

    @property
    def is_open(self) -> bool:
        """Whether it is not resolved: settled is open, and so is what a run ended with."""
        return self.state in ("open", "settled", "ended")

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        rows = [
            ("state", self.state if not self.reason else f"{self.state} ({self.reason})"),
            ("severity", self.severity),
            ("steps", f"{self.started} to {'now' if self.ended is None else self.ended}"),
            ("peak", f"{self.metric} {self.peak:.4g}"),
            ("detectors", ", ".join(self.detectors)),
            ("message", self.worst.message),
            ("to do", self.worst.recommendation),
        ]
        return html_table(f"klarm incident {self.number or ''} on {self.signal}", rows)


EventKind = Literal["opened", "escalated", "settled", "reopened", "resolved", "ended"]
# Those that people are notified of; the others change what was sent before, where that is possible.
RINGING: tuple[EventKind, ...] = ("opened", "escalated", "resolved")

Reason = Literal[
    # why an incident opens
    "confirmed",  # the signal was in alert for `rows` rows in a row
    "decisive",  # a detector that needs no further confirmation
    "not_finite",  # a value that is NaN or infinite
    # why it escalates
    "graver",  # the severity rose
    "far_worse",  # the peak is many times the one last notified
    "new_kind",  # another detector, metric or direction on the same signal
    # why it settles: quiet, at a broken level
    "settled",
    # why it is open again
    "returned",  # soon after its recovery
    "alert_while_settled",
    "resumed",  # the run goes on, and so does the incident
    "back_in_time",  # training went back to before it had settled
    # how it is resolved
    "recovered",
    "accepted",  # its level is the new normal
    "closed",  # by a person
    "superseded",  # by the incident that follows it
    "rolled_back",  # training went back to before it; or, if it opens, to before its end
    "lost",  # its detector is off by now, or its rows cannot be read
    # how a run ends that has it open
    "finished",
    "crashed",
    "interrupted",
]
# Why an incident of journal format 1 escalates, and why one is over that never was.
SEVERITY_RAISED = "the severity rose"
ROLLED_BACK = "rolled back"


class Event(msgspec.Struct, frozen=True, tag_field="type", tag="event"):
    """A change of an incident. A journal line as it stands.

    `reason` is a Reason; in a journal of format 1 it is a sentence.
    """

    event: EventKind
    incident: int  # its number within the run, for people
    signal: str
    severity: Severity
    step: int
    started: int
    detectors: list[str]
    peak: float | str
    reason: str
    message: str
    recommendation: str
    # When it opened or escalated: what else had moved, and the pattern of the playbook that fits.
    moved: str = ""
    pattern: str = ""
    cause: str = ""
    remedy: str = ""
    # When it opened or escalated: the step at which its metric had left what was normal, as far as
    # that can be seen, and the last checkpoint from before it.
    onset: int | None = None
    checkpoint: str = ""
    # When it is resolved: false if it only went quiet, and its metric is as bad as ever.
    recovered: bool = True
    # Unique for good, in this run and any other. Empty in format 1; readers derive one.
    id: str = ""
    # What the peak is of; empty if its detector watches every metric alike.
    metric: str = ""
    worse: Worse = "higher"
    rows: int | None = None  # in alert when it opened, quiet when it settled or was resolved
    level: float | None = None  # where the metric is now, once it is quiet
    before: float | None = None  # its level before the incident
    notified: float | str | None = None  # the peak that people were last notified of
    follows: str = ""  # the id of the incident that this one supersedes
    by: str = ""  # who closed it
    detector: str = ""  # whose message it is


class Blip(msgspec.Struct, frozen=True, tag_field="type", tag="blip"):
    """An incident that never opened: recorded, told to nobody."""

    signal: str
    severity: Severity
    started: int
    step: int
    detectors: list[str]
    peak: float | str


CommandKind = Literal["ack", "close", "accept", "silence", "silence_off"]


class Command(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="command"):
    """What a person told a run from outside.

    A line of commands.jsonl, and of the journal once the run has applied it: then `step` is the
    step before whose row it counts.
    """

    command: CommandKind
    key: str  # unique, so that it is applied once
    time: float
    by: str
    incident: str = ""  # an incident's id: ack, close, accept
    signal: str = ""  # silence, silence_off
    until_step: int | None = None
    until_time: float | None = None
    even_critical: bool = False
    step: int | None = None
    lines: int = 0  # in a journal: how many lines after it belong to it
