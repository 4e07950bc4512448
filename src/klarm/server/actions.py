"""Actions that people can take on the page, equivalent to the commands of the terminal.

A run that is training finds a command in `commands.jsonl` and applies it with its next step. If no
process is training the run, closing an incident is recorded immediately, as by `klarm close`.
"""

from __future__ import annotations

import getpass
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from klarm.delivery import Silence, last_step, parse_span, silence_in_words
from klarm.incidents import subject_of
from klarm.journal import IncidentRecord, append_command, new_key, record_command
from klarm.runs import FalseAlarm, mark
from klarm.server.problems import bad_request, conflict, unavailable
from klarm.server.served_run import ServedRun
from klarm.settings import did_you_mean
from klarm.types import Command, CommandKind
from klarm.wording import ending

_Name = Annotated[str, Meta(max_length=200)]


class Acknowledge(msgspec.Struct, forbid_unknown_fields=True):
    """Acknowledge an incident."""

    by: _Name = ""


class Close(msgspec.Struct, forbid_unknown_fields=True):
    """Close an incident, or accept its level as normal."""

    by: _Name = ""
    accept: bool = False


class SilenceSignal(msgspec.Struct, forbid_unknown_fields=True, rename={"span": "for"}):
    """Hold back notifications of a signal for a while."""

    signal: str
    span: str
    even_critical: bool = False
    by: _Name = ""


class MarkFalseAlarm(msgspec.Struct, forbid_unknown_fields=True):
    """Mark an incident as a false alarm."""

    by: _Name = ""
    note: Annotated[str, Meta(max_length=2000)] = ""


class Done(msgspec.Struct):
    """What was done, as a sentence."""

    applied: Literal["now", "next_step"]
    text: str


def acknowledge(run: ServedRun, id_: str, asked: Acknowledge) -> Done:
    """Acknowledge an incident, as `klarm ack` does."""
    incident, who = run.incident(id_), _who(asked.by)
    _tell(run, "ack", who, incident=incident.id)
    return Done("now", f"{_named(incident)} is acknowledged by {who}")


def take_back_acknowledgement(run: ServedRun, id_: str) -> Done:
    """Take an acknowledgement back, as `klarm ack --undo` does."""
    incident = run.incident(id_)
    if incident.id not in run.acknowledged:
        raise conflict(f"{_named(incident)} is not acknowledged")
    _tell(run, "ack_off", _who(""), incident=incident.id)
    return Done("now", f"{_named(incident)} is no longer acknowledged")


def close(run: ServedRun, id_: str, asked: Close) -> Done:
    """End an incident, or accept its level, as `klarm close` does."""
    incident = run.incident(id_)
    if not incident.is_open:
        became = ending(incident.last)
        raise conflict(
            f"{_named(incident)} is already resolved: {became} at step {incident.last.step}"
        )
    # The command is also written to the file, so that the index shows it before it has read the
    # journal. Both have the same key.
    kind: CommandKind = "accept" if asked.accept else "close"
    command = _tell(run, kind, _who(asked.by), incident=incident.id)
    problems: list[str] = []
    with _writing():
        is_recorded = record_command(run.folder, command, problems.append)
    if problems:
        raise unavailable(problems[0])
    done = "accepted" if asked.accept else "closed"
    if is_recorded:
        return Done("now", f"{_named(incident)} is {done}")
    return Done("next_step", f"{_named(incident)} will be {done} with the run's next step")


def silence(run: ServedRun, asked: SilenceSignal) -> Done:
    """Hold back notifications of a signal for a while, as `klarm silence` does."""
    signal, who = _signal(run, asked.signal), _who(asked.by)
    try:
        until_step, until_time = parse_span(asked.span, last_step(run.folder), time.time())
    except ValueError as error:
        raise bad_request(f"for: {error}", "for") from None
    except OSError as error:
        raise unavailable(f"the journal cannot be read: {error.strerror}") from None
    silenced = Silence(signal, who, until_step, until_time, asked.even_critical)
    _tell(run, "silence", **silenced._asdict())
    return Done("now", silence_in_words(silenced))


def end_silence(run: ServedRun, signal: str) -> Done:
    """End the silences of a signal, as `klarm silence --off` does."""
    signal = _signal(run, signal)
    if signal not in {known.signal for known in run.silences()}:
        raise conflict(f"{signal} is not silenced")
    _tell(run, "silence_off", _who(""), signal=signal)
    return Done("now", f"{signal} is no longer silenced")


def mark_false_alarm(run: ServedRun, id_: str, asked: MarkFalseAlarm) -> Done:
    """Mark an incident as a false alarm."""
    incident, who = run.incident(id_), _who(asked.by)
    with _writing():
        mark(run.store, run.run, FalseAlarm(incident.id, time.time(), who, asked.note))
    return Done("now", f"{_named(incident)} is marked as a false alarm by {who}")


def unmark_false_alarm(run: ServedRun, id_: str) -> Done:
    """Remove the mark that an incident was a false alarm."""
    incident = run.incident(id_)
    if incident.id not in run.marks:
        raise conflict(f"{_named(incident)} is not marked as a false alarm")
    with _writing():
        mark(run.store, run.run, FalseAlarm(incident.id, time.time(), _who(""), is_marked=False))
    return Done("now", f"{_named(incident)} is no longer marked as a false alarm")


def _named(incident: IncidentRecord) -> str:
    return f"incident {incident.number} ({incident.id}) on {subject_of(incident)}"


def _who(by: str) -> str:
    return by.strip() or getpass.getuser()


def _signal(run: ServedRun, signal: str) -> str:
    meant = run.signals
    if signal not in meant:
        hint = (
            did_you_mean(signal, meant) or f"; choose from {', '.join(sorted(set(meant.values())))}"
        )
        raise bad_request(f"there is no signal {signal!r:.80}{hint}", "signal")
    return meant[signal]


def _tell(run: ServedRun, command: CommandKind, by: str, **about: Any) -> Command:
    """Write a command for the run."""
    told = Command(command=command, key=new_key(), time=time.time(), by=by, **about)
    with _writing():
        append_command(run.folder, told)
    return told


@contextmanager
def _writing() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise unavailable(f"the run's folder cannot be written: {error.strerror}") from None
