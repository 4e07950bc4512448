"""The record types of a journal, one per line. Documented in docs/journal.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from klarm.metrics import Kind, Origin, to_number
from klarm.speech import Speech
from klarm.text import clean
from klarm.types import Alert, Blip, Command, Event

FORMAT = 3  # of the journal; other formats are refused


class Started(msgspec.Struct, tag_field="type", tag="run"):
    """The first line, repeated whenever a process resumes the run: the settings from there on."""

    run: str
    started: float
    klarm: str
    host: str
    config: dict[str, Any]
    framework: str = ""  # which framework logs, if known
    format: int = FORMAT
    output_dir: str = ""  # where the trainer saves, if that distinguishes its runs
    # What detectors say that are not klarm's: whoever reads the journal may not have them.
    sentences: dict[str, Speech] = {}


class Bound(msgspec.Struct, tag_field="type", tag="binding"):
    """The trainer's keys from which metrics are read, where they differ from the metric's name."""

    keys: dict[str, str]
    kinds: dict[str, Kind] = {}  # msgspec copies it

    @classmethod
    def of(cls, origins: Mapping[str, Origin]) -> Bound:
        """Return the record of these origins."""
        keys = {name: origin.key for name, origin in origins.items()}
        return cls(keys, {name: o.kind for name, o in origins.items() if o.kind is not None})

    def origins(self) -> dict[str, Origin]:
        """Return the origins of the metrics named here, valid from this line on."""
        return {name: Origin(key, self.kinds.get(name)) for name, key in self.keys.items()}


class Step(msgspec.Struct, tag_field="type", tag="step", omit_defaults=True):
    """The values logged at one step, with non-finite values as text."""

    step: int
    time: float
    metrics: Mapping[str, Any]
    lines: int = 0  # how many of the following lines belong to this one: alerts, events, blips
    late: int | None = None  # the earlier step it was logged for, if it arrived late, during `step`
    repeats: Mapping[str, Any] = {}  # of a late step: values logged before, which are not judged


class Checkpoint(msgspec.Struct, tag_field="type", tag="checkpoint"):
    """The trainer saved its state."""

    step: int
    time: float
    path: str


class Resume(msgspec.Struct, tag_field="type", tag="resume", omit_defaults=True):
    """Training continues from this step: rows at or after it were rolled back."""

    step: int
    time: float
    lines: int = 0


class Source(msgspec.Struct, tag_field="type", tag="source"):
    """From here on, steps are read from this log file; its first `kept` steps are recorded."""

    path: str
    kept: int
    # The column that was named for the steps, "" if none was; earlier versions did not record it.
    step_column: str | None = None


# The outcome of a process that only stopped watching: training goes on, and incidents stay open.
DETACHED: Final = "detached"
# That of a process that could record none, as somebody else has noticed.
KILLED: Final = "killed"


class Finish(msgspec.Struct, tag_field="type", tag="finish", omit_defaults=True):
    """The process ended and was able to record it."""

    time: float
    steps: int
    lines: int = 0
    # "crashed", "interrupted", "stopped" or "detached", if training did not end by itself.
    outcome: str = ""
    error: str = ""  # the exception that ended it, if it is known


# Each begins a batch: lines that belong to it may follow, and all are written together or not at
# all.
Head = Step | Resume | Finish | Command
Record = Head | Started | Bound | Alert | Event | Blip | Checkpoint | Source

decode = msgspec.json.Decoder(Record).decode
_encode = msgspec.json.Encoder().encode


# The errors that decoding raises for a line that is not a record.
DECODE_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def decoded(line: bytes) -> Record | None:
    """Return the record on a line; None if it is unreadable or of a later version of klarm."""
    try:
        record: Record = decode(line)
    except DECODE_ERRORS:
        return None
    return record


def encode(record: Record, lines: int = 0) -> bytes:
    """Return a record as JSON, with non-finite numbers as text.

    `lines` is how many of the following lines belong to the record.
    """
    if type(record) is Alert:  # by far the most frequent type
        numbers = [value for value in record.metrics.values() if type(value) is float]
        total = sum(numbers)
        if total - total != 0.0:  # one of them is NaN or infinite, or their sum overflows
            record = msgspec.structs.replace(record, metrics=spell_non_finite(record.metrics))
        return _with_sentences(record)
    if isinstance(record, Head):
        if lines:
            record = msgspec.structs.replace(record, lines=lines)
    elif isinstance(record, Event):
        spelt = spell_non_finite({"peak": record.peak, "notified": record.notified})
        moved = {"moved": record.moved}  # for people who read the file
        return _joined(msgspec.structs.replace(record, **spelt), moved)
    elif isinstance(record, Blip):
        record = msgspec.structs.replace(record, **spell_non_finite({"peak": record.peak}))
    return _encode(record)


def _with_sentences(alert: Alert) -> bytes:
    """Return an alert as JSON, with its sentences for people who read the file."""
    said = {"message": alert.message, "recommendation": alert.recommendation}
    return _joined(alert, said)


def _joined(record: Record, said: dict[str, str]) -> bytes:
    return _encode(record)[:-1] + b"," + _encode(said)[1:]


def encode_step(step: int, time: float, values: Mapping[str, float], lines: int = 0) -> bytes:
    """Return a step as JSON. Every call of `log` comes here, so the common case is fast."""
    total = sum(values.values())
    if total - total != 0.0:  # one of them is NaN or infinite, or their sum overflows
        return _encode(Step(step, time, spell_non_finite(values), lines))
    return _encode(Step(step, time, values, lines))


def encode_reduced(record: Record, lines: int = 0) -> bytes:
    """Return a record as JSON, replacing each value that JSON cannot hold by the name of its type.

    A detector written by the user may put anything into its alerts. Raises one of NOT_JSON if a
    record contains itself.
    """
    fields = {"type": record.__struct_config__.tag, **msgspec.structs.asdict(record)}
    return _encode(_reduced(fields | {"lines": lines} if lines else fields))


# The errors that encoding raises for values that JSON cannot hold.
NOT_JSON = (TypeError, ValueError, OverflowError, RecursionError, msgspec.EncodeError)


def _reduced(value: object) -> Any:
    if isinstance(value, str):
        return clean(value)  # it may hold lone surrogates, as some file names do
    if isinstance(value, Mapping):
        return {_reduced(str(name)): _reduced(held) for name, held in value.items()}
    if isinstance(value, list | tuple):
        return [_reduced(held) for held in value]
    if value is None or type(value) in (bool, int):
        return value
    number = to_number(value)
    if number is not None:
        return spell_non_finite({"": number})[""]
    return f"<{type(value).__name__}>"


def spell_non_finite(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values with NaN and infinity as text, because JSON has no numbers for them.

    >>> spell_non_finite({"kl": float("nan"), "loss": 0.5})
    {'kl': 'NaN', 'loss': 0.5}
    """
    return {k: _SPELLING.get(repr(v), v) if isinstance(v, float) else v for k, v in values.items()}


_SPELLING = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
