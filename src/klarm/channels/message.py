"""The message about one event, with the same content on every channel."""

from __future__ import annotations

import time
from typing import Literal

import msgspec
from msgspec.structs import replace

from klarm.channels.change import Change, change_of
from klarm.channels.sparkline import sparkline
from klarm.channels.text import one_line
from klarm.incidents import is_alarm, is_undone, metric_of
from klarm.journal import STATE_AFTER, RecordedState
from klarm.types import Event, EventKind, Reason, Severity
from klarm.wording import advice, before_it_began, headline, number, title, what_began, why

_MAX_NAME = 70  # characters of the run's name in a title, which must leave room for the rest
MAX_POINTS = 200  # of a curve

# The reasons for which incidents are over, since journal format 2. One that is lost may not be.
ENDINGS: tuple[Reason, ...] = (
    "recovered", "accepted", "closed", "superseded", "rolled_back", "resumed",
)  # fmt: skip

_LATE = "Sent late"

Mood = Literal["warning", "critical", "good"]


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a message about one event, which a channel formats.

    Everything is plain text and safe to show; what is not known is empty. A channel decides how
    the message looks, never what it says.
    """

    run: str
    incident: int
    event: EventKind
    signal: str
    severity: Severity
    step: int
    title: str  # one line: run, severity, signal, what happened, since when
    body: str  # a few lines: since when, numbers, what else moved, what to do
    # The parts of the body as name -> value, in order, for services that show fields.
    fields: dict[str, str] = {}
    sparkline: str = ""  # the last values of the metric, as characters
    curve: list[tuple[int, float]] = []  # the same as (step, value), for channels that can draw
    metric: str = ""  # the metric of the peak and of the curve
    link: str = ""  # to the page of the run
    test: bool = False  # sent by `klarm test-alert`; its title says so, too
    what: str = ""  # the title without the run
    summary: str = ""  # the first line of the body: the numbers, or how the incident ended
    started: int = 0  # the step of the incident's first alert
    time: float = 0.0  # Unix time of the event
    recovered: bool = True  # False if the incident ended but its metric stays near its worst
    id: str = ""  # of the incident, unique across runs
    ending: str = ""  # why it was resolved, one of ENDINGS
    reason: str = ""  # why it changed: a Reason
    why: str = ""  # the reason as a sentence
    repeat: int = 0  # the number of the reminder; 0 if it is not a reminder
    message_id: str = ""  # unique per message, and the same for every attempt to send it
    state: RecordedState = "open"  # of the incident, after the last of the changes
    changes: list[Change] = []  # all that the message is about, in order; none in a reminder

    @property
    def drawn(self) -> str:
        """The sparkline with its metric, its first and last value and its steps."""
        if not self.sparkline:
            return ""
        return f"{self.metric} {self.sparkline}  {_span(self.curve)}".rstrip()

    @property
    def mood(self) -> Mood:
        """How the message should look: good only if the incident ended well."""
        if self.event != "resolved":
            return self.severity
        return "good" if self.over else "warning"

    @property
    def over(self) -> bool:
        """Whether the incident is over, so that a pager may close it."""
        return self.event == "resolved" and (self.recovered or self.ending != "")

    @property
    def key(self) -> str:
        """What identifies the incident of the message: its id."""
        return self.id


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """What a message needs besides its event. Unknown values keep their defaults."""

    run: str
    now: float  # Unix time of the event, or of the last one that the message combines
    happened: float = 0.0  # Unix time of the event, if it is another
    sent: float = 0.0  # Unix time of the message, which may be much later
    run_started: float = 0.0
    incident_started: float = 0.0  # when the step of its first alert was logged
    values: list[tuple[int, float]] = []  # (step, value) of `metric_of(event)`, oldest first
    opening: Event | None = None  # the event that opened the incident: it names what else moved
    gpus: int = 0
    gpu_hour_price: float = 0.0
    url: str = ""
    acknowledged_by: str = ""
    # If one message combines several events: each of them, the last, what happened, and what became
    # of the incident in short.
    changes: list[Change] = []
    latest: Event | None = None
    history: str = ""
    became: str = ""


def message_of(event: Event, context: Context) -> Message:
    """Write the message of an event."""
    curve = context.values[-MAX_POINTS:]
    metric = one_line(metric_of(event), _MAX_NAME)
    line = sparkline([value for _, value in curve])
    fields = {name: one_line(value) for name, value in _fields(event, context).items()}
    fields = {name: line for name, line in fields.items() if line}
    summary = one_line(headline(event))
    happened = context.happened or context.now
    what = one_line(title(event, context.became))
    message = Message(
        run=one_line(context.run),
        incident=event.incident,
        event=event.event,
        signal=one_line(event.signal, _MAX_NAME),
        severity=event.severity,
        step=event.step,
        title=_titled(context.run, what),
        what=what,
        body="",
        fields=fields,
        sparkline=line,
        curve=curve,
        metric=metric,
        link=one_line(context.url),
        summary=summary,
        started=event.started,
        time=happened,
        recovered=event.recovered,
        id=one_line(event.id, _MAX_NAME),
        ending=_ending(event),
        reason=one_line(event.reason),
        why=one_line(why(event)),
        state=STATE_AFTER[(context.latest or event).event],
        changes=context.changes or [change_of(event, happened)],
    )
    return replace(message, body=_body(message))


def reminder_of(message: Message, repeat: int, now: float) -> Message:
    """Return a message as a reminder that its incident is still open."""
    still = (
        f"for {_spoken(now - message.time)}. Nobody has acknowledged it: `klarm ack {message.key}`"
    )
    fields = {name: value for name, value in message.fields.items() if name != _LATE}
    reminder = replace(
        message,
        title=_titled(message.run, f"still open: {message.what}"),
        fields={"Still open": still, **fields},
        repeat=repeat,
        changes=[],
    )
    return replace(reminder, body=_body(reminder))


def _titled(run: str, what: str) -> str:
    return f"{one_line(run, _MAX_NAME)}: {what}"


def _body(message: Message) -> str:
    """Return the text of a message: its summary, curve, fields and link, each on a line."""
    lines = [f"{name}: {value}" for name, value in message.fields.items()]
    parts = [message.summary, message.drawn, *lines, message.link]
    return "\n".join(part for part in parts if part)


def _ending(event: Event) -> str:
    return event.reason if event.event == "resolved" and event.reason in ENDINGS else ""


def _fields(event: Event, context: Context) -> dict[str, str]:
    opening = event if event.pattern or event.moved else context.opening or event
    over = event.event == "resolved"
    ended = context.latest is not None and context.latest.event == "ended"
    to_do = next(iter(advice(replace(event, event="ended") if ended else event, opening)), "")
    metric, worst = metric_of(event), "Peak" if event.worse == "higher" else "Lowest"
    return {
        "Lasted" if over else "Since": _duration(event, context, over),
        "Why it opened" if event.event == "opened" else "What changed": (
            why(event) if is_alarm(event) else ""
        ),
        "Likely cause": opening.cause,
        "To do": to_do,
        "Last good checkpoint": (event.checkpoint or opening.checkpoint) if to_do else "",
        worst: f"{metric} {number(event.peak, 4)}" if metric else "",
        "History": context.history,
        # The value of an earlier alert would be confusing beside the peak.
        "Alert": event.message if not is_alarm(event) and not metric else "",
        "Also moved": event.moved if is_alarm(event) else "",
        "Cost": _cost(context),
        "Acknowledged by": context.acknowledged_by,
        _LATE: _delay(context),
    }


def _duration(event: Event, context: Context, over: bool) -> str:
    began = context.incident_started
    seconds = context.now - began if began else 0.0
    if is_undone(event):
        return ""
    if over:
        steps = f"steps {event.started} to {event.step}"
        return f"{steps}, {_spoken(seconds)}" if seconds >= 1 else steps
    at = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(began)) if began else ""
    ago = f"{_spoken(seconds)} ago" if seconds >= 60 else ""
    earlier = f"; {before}" if (before := before_it_began(event)) else ""
    if what := what_began(event):
        return f"step {event.started} ({', '.join(filter(None, (what, at, ago)))}){earlier}"
    when = f", {at}" if at else ""
    return f"step {event.started}{when}{f' ({ago})' if ago else ''}{earlier}"


def _delay(context: Context) -> str:
    seconds = context.sent - (context.happened or context.now)
    return f"{_spoken(seconds)} after it happened" if context.sent and seconds >= 60 else ""


def _cost(context: Context) -> str:
    per_second = context.gpus * context.gpu_hour_price / 3600.0
    if not per_second:
        return ""
    costs = []
    if context.incident_started:
        cost = (context.now - context.incident_started) * per_second
        costs.append(f"{_money(cost)} since it began")
    if context.run_started:
        cost = (context.now - context.run_started) * per_second
        costs.append(f"{_money(cost)} for the run so far")
    return ", ".join(costs)


def _money(amount: float) -> str:
    amount = max(amount, 0.0)  # the clock may have been set back
    return f"${amount:,.0f}" if amount >= 100 else f"${amount:.2f}"


def _span(curve: list[tuple[int, float]]) -> str:
    if not curve:
        return ""
    (first, before), (last, now) = curve[0], curve[-1]
    return f"{number(before, 4)} → {number(now, 4)}, steps {first} to {last}"


def _spoken(seconds: float) -> str:
    """Return a duration in its two largest units.

    >>> _spoken(42), _spoken(3700), _spoken(180_000)
    ('42 s', '1 h 1 min', '2 d 2 h')
    """
    units = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))
    left = int(seconds)
    parts: list[tuple[int, str]] = []
    for unit, size in units:
        count, left = divmod(left, size)
        if count or parts:
            parts.append((count, unit))
    return " ".join(f"{count} {unit}" for count, unit in parts[:2] if count) or "0 s"
