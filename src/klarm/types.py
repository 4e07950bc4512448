"""The words every part of klarm shares: Alert, Incident, Event. Imports nothing of ours."""

from __future__ import annotations

from typing import Literal

import msgspec

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


State = Literal["pending", "open", "resolved", "blip"]


class Incident(msgspec.Struct):
    """One episode on one signal, from its first alert on.

    Pending until it is believed; then open, and in the end resolved. One that goes quiet while it
    is pending was a blip: nobody is told.
    """

    signal: str
    started: int  # the step of its first alert
    state: State
    severity: Severity  # the worst so far
    detectors: list[str]  # in the order in which they first spoke
    alerts: int  # how many
    last_alert: int  # the step of the latest
    worst: Alert  # of the worst severity, as of when that was last told
    peak: float  # the worst value of the metric that was alarmed about
    worse: Worse  # which that is
    id: int = 0  # counts the incidents of a run that were opened, from 1
    opened: int | None = None  # the steps at which it changed
    ended: int | None = None
    onset: int | None = None  # the step at which its metric had left what was normal, looking back
    recovered: bool = True  # once it is resolved: whether its metric is back


EventKind = Literal["opened", "escalated", "resolved"]
# Why an incident escalates, unless it does so within its severity.
GRAVER = "the severity rose"
ROLLED_BACK = "rolled back"  # why one is over that never was


class Event(msgspec.Struct, frozen=True, tag_field="type", tag="event"):
    """A change of an incident that is worth telling. A journal line as it stands."""

    event: EventKind
    incident: int
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


class Blip(msgspec.Struct, frozen=True, tag_field="type", tag="blip"):
    """An incident that never opened: recorded, told to nobody."""

    signal: str
    severity: Severity
    started: int
    step: int
    detectors: list[str]
    peak: float | str
