"""Actions that people can take on the page, equivalent to the commands of the terminal.

A run that is training finds a command in `commands.jsonl` and applies it with its next step. If no
process is training the run, closing an incident is recorded immediately, as by `klarm close`.
"""

from __future__ import annotations

import getpass
import time
from pathlib import Path
from typing import Literal

import msgspec

from klarm.delivery import Silence, last_step, parse_span, silence_in_words
from klarm.detectors import known_signals
from klarm.incidents import subject_of
from klarm.journal import IncidentRecord, append_command, new_key, record_command
from klarm.runs import FalseAlarm, mark
from klarm.server.incidents import ShownIncidents
from klarm.server.problems import bad_request, conflict, unavailable
from klarm.server.served_run import ServedRun
from klarm.settings import did_you_mean
from klarm.types import Command
from klarm.wording import ending

_MAX_NAME, _MAX_NOTE = 200, 2000


class Acknowledge(msgspec.Struct, forbid_unknown_fields=True):
    """Acknowledge an incident."""

    by: str = ""


class Close(msgspec.Struct, forbid_unknown_fields=True):
    """Close an incident, or accept its level as normal."""

    by: str = ""
    accept: bool = False


class SilenceSignal(msgspec.Struct, forbid_unknown_fields=True, rename={"span": "for"}):
    """Hold back notifications of a signal for a while."""

    signal: str
    span: str
    even_critical: bool = False
    by: str = ""


class MarkFalseAlarm(msgspec.Struct, forbid_unknown_fields=True):
    """Mark an incident as a false alarm."""

    by: str = ""
    note: str = ""


class Done(msgspec.Struct):
    """What was done, as a sentence."""

    applied: Literal["now", "next_step"]
    text: str


def acknowledge(run: ServedRun, id_: str, asked: Acknowledge) -> Done:
    """Acknowledge an incident, as `klarm ack` does."""
    incident = run.incident(id_)
    who = _who(asked.by)
    _tell(
        run.folder,
        Command(command="ack", key=new_key(), time=time.time(), by=who, incident=incident.id),
    )
    return Done("now", f"{_named(incident)} is acknowledged by {who}")


def take_back_acknowledgement(run: ServedRun, id_: str) -> Done:
    """Take an acknowledgement back, as `klarm ack --undo` does."""
    incident = run.incident(id_)
    if not ShownIncidents(run).of(incident).acknowledged_by:
        raise conflict(f"{_named(incident)} is not acknowledged")
    _tell(
        run.folder,
        Command(
            command="ack_off", key=new_key(), time=time.time(), by=_who(""), incident=incident.id
        ),
    )
    return Done("now", f"{_named(incident)} is no longer acknowledged")


def close(run: ServedRun, id_: str, asked: Close) -> Done:
    """End an incident, or accept its level, as `klarm close` does."""
    incident = run.incident(id_)
    if not incident.is_open:
        became = ending(incident.last)
        raise conflict(
            f"{_named(incident)} is already resolved: {became} at step {incident.last.step}"
        )
    command = Command(
        command="accept" if asked.accept else "close",
        key=new_key(),
        time=time.time(),
        by=_who(asked.by),
        incident=incident.id,
    )
    done = "accepted" if asked.accept else "closed"
    # The command is also written to the file, so that the index shows it before it has read the
    # journal. Both have the same key.
    _tell(run.folder, command)
    problems: list[str] = []
    try:
        is_recorded = record_command(run.folder, command, problems.append)
    except OSError as error:
        raise unavailable(f"the run's folder cannot be written: {error.strerror}") from None
    if problems:
        raise unavailable(problems[0])
    if is_recorded:
        return Done("now", f"{_named(incident)} is {done}")
    return Done("next_step", f"{_named(incident)} will be {done} with the run's next step")


def silence(run: ServedRun, asked: SilenceSignal) -> Done:
    """Hold back notifications of a signal for a while, as `klarm silence` does."""
    signal = _signal(run, asked.signal)
    now = time.time()
    try:
        until_step, until_time = parse_span(asked.span, last_step(run.folder), now)
    except ValueError as error:
        raise bad_request(f"for: {error}", "for") from None
    except OSError as error:
        raise unavailable(f"the journal cannot be read: {error.strerror}") from None
    silenced = Silence(signal, _who(asked.by), until_step, until_time, asked.even_critical)
    _tell(
        run.folder,
        Command(command="silence", key=new_key(), time=now, **silenced._asdict()),
    )
    return Done("now", silence_in_words(silenced))


def end_silence(run: ServedRun, signal: str) -> Done:
    """End the silences of a signal, as `klarm silence --off` does."""
    signal = _signal(run, signal)
    if signal not in {known.signal for known in run.silences()}:
        raise conflict(f"{signal} is not silenced")
    _tell(
        run.folder,
        Command(command="silence_off", key=new_key(), time=time.time(), by=_who(""), signal=signal),
    )
    return Done("now", f"{signal} is no longer silenced")


def mark_false_alarm(run: ServedRun, id_: str, asked: MarkFalseAlarm) -> Done:
    """Mark an incident as a false alarm."""
    incident = run.incident(id_)
    if len(asked.note) > _MAX_NOTE:
        raise bad_request(f"note must have at most {_MAX_NOTE} characters", "note")
    who = _who(asked.by)
    _write_mark(run, FalseAlarm(incident.id, time.time(), who, asked.note))
    return Done("now", f"{_named(incident)} is marked as a false alarm by {who}")


def unmark_false_alarm(run: ServedRun, id_: str) -> Done:
    """Remove the mark that an incident was a false alarm."""
    incident = run.incident(id_)
    if incident.id not in run.marks:
        raise conflict(f"{_named(incident)} is not marked as a false alarm")
    _write_mark(run, FalseAlarm(incident.id, time.time(), _who(""), is_marked=False))
    return Done("now", f"{_named(incident)} is no longer marked as a false alarm")


def _named(incident: IncidentRecord) -> str:
    return f"incident {incident.number} ({incident.id}) on {subject_of(incident)}"


def _who(by: str) -> str:
    if len(by) > _MAX_NAME:
        raise bad_request(f"by must have at most {_MAX_NAME} characters", "by")
    return by.strip() or getpass.getuser()


def _signal(run: ServedRun, signal: str) -> str:
    # A detector of the training script's own has signals of its own.
    signals = sorted({*known_signals(), *(known.signal for known in run.incidents.values())})
    if signal not in signals:
        hint = did_you_mean(signal, signals) or f"; choose from {', '.join(signals)}"
        raise bad_request(f"there is no signal {signal!r:.80}{hint}", "signal")
    return signal


def _tell(folder: Path, command: Command) -> None:
    try:
        append_command(folder, command)
    except OSError as error:
        raise unavailable(f"the run's folder cannot be written: {error.strerror}") from None


def _write_mark(run: ServedRun, false_alarm: FalseAlarm) -> None:
    try:
        mark(run.store, run.run, false_alarm)
    except OSError as error:
        raise unavailable(f"the run's folder cannot be written: {error.strerror}") from None
