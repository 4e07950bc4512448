"""The lines of a journal: what each kind of them holds. Documented in docs/journal.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from klarm.metrics import Kind, Origin, to_number
from klarm.text import clean
from klarm.types import Alert, Blip, Command, Event

FORMAT = 2  # what is written; journals of format 1 are read as well


class Started(msgspec.Struct, tag_field="type", tag="run"):
    """The first line, and one whenever a process takes the run up: how it is watched from there."""

    run: str
    started: float
    klarm: str
    host: str
    config: dict[str, Any]
    framework: str = ""  # what logs, as far as it was said
    format: int = 1  # klarm 0.1 does not write it


class Bound(msgspec.Struct, tag_field="type", tag="binding"):
    """Which of the trainer's keys metrics are read from, where that is not plain from the name."""

    keys: dict[str, str]
    kinds: dict[str, Kind] = {}  # msgspec copies it

    @classmethod
    def of(cls, origins: Mapping[str, Origin]) -> Bound:
        """Return the line for these."""
        keys = {name: origin.key for name, origin in origins.items()}
        return cls(keys, {name: o.kind for name, o in origins.items() if o.kind is not None})

    def origins(self) -> dict[str, Origin]:
        """Return where the metrics that it names are read from here on."""
        return {name: Origin(key, self.kinds.get(name)) for name, key in self.keys.items()}


class Step(msgspec.Struct, tag_field="type", tag="step", omit_defaults=True):
    """What was logged at one step, non-finite values as text."""

    step: int
    time: float
    metrics: Mapping[str, Any]
    lines: int = 0  # how many lines after it belong to it: alerts, events, blips
    late: int | None = None  # the step that it was logged for, if it came when `step` was under way
    repeats: Mapping[str, Any] = {}  # of a late one: what was logged before, so nobody judges it


class Checkpoint(msgspec.Struct, tag_field="type", tag="checkpoint"):
    """The trainer saved its state."""

    step: int
    time: float
    path: str


class Resume(msgspec.Struct, tag_field="type", tag="resume", omit_defaults=True):
    """Training goes on from this step: rows at or after it were rolled back and no longer count."""

    step: int
    time: float
    lines: int = 0


class Source(msgspec.Struct, tag_field="type", tag="source"):
    """From here on, steps are read from this log: after those of its steps recorded already."""

    path: str
    kept: int


class Finish(msgspec.Struct, tag_field="type", tag="finish", omit_defaults=True):
    """The run ended and said so."""

    time: float
    steps: int
    lines: int = 0


# Each may be followed by lines that belong to it: they are written together or not at all.
Head = Step | Resume | Finish | Command
Record = Head | Started | Bound | Alert | Event | Blip | Checkpoint | Source

decode = msgspec.json.Decoder(Record).decode
_encode = msgspec.json.Encoder().encode


# What decoding raises for what is no record.
DECODE_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def decoded(line: bytes) -> Record | None:
    """Return the record on a line; None if it cannot be read, or if only a later klarm knows it."""
    try:
        record: Record = decode(line)
    except DECODE_ERRORS:
        return None
    return record


def encode(record: Record, lines: int = 0) -> bytes:
    """Return a record as JSON, its non-finite numbers as text.

    `lines` is how many lines after it belong to it.
    """
    if type(record) is Alert:  # the most frequent by far
        numbers = [value for value in record.metrics.values() if type(value) is float]
        total = sum(numbers)
        if total - total != 0.0:  # a NaN or an infinity is among them, or their sum overflows
            record = msgspec.structs.replace(record, metrics=spell_non_finite(record.metrics))
    elif isinstance(record, Head):
        if lines:
            record = msgspec.structs.replace(record, lines=lines)
    elif isinstance(record, Event):
        spelt = spell_non_finite({"peak": record.peak, "notified": record.notified})
        record = msgspec.structs.replace(record, **spelt)
    elif isinstance(record, Blip):
        record = msgspec.structs.replace(record, **spell_non_finite({"peak": record.peak}))
    return _encode(record)


def encode_step(step: int, time: float, values: Mapping[str, float], lines: int = 0) -> bytes:
    """Return a step as JSON. Every call of `log` comes here, so the common case is fast."""
    total = sum(values.values())
    if total - total != 0.0:  # a NaN or an infinity is among them
        return _encode(Step(step, time, spell_non_finite(values), lines))
    return _encode(Step(step, time, values, lines))


def encode_reduced(record: Record, lines: int = 0) -> bytes:
    """Return a record as JSON whatever it holds, with what JSON cannot hold named by its type.

    A detector of the user's own may put anything into its alerts. May raise one of NOT_JSON where a
    record contains itself.
    """
    fields = {"type": record.__struct_config__.tag, **msgspec.structs.asdict(record)}
    return _encode(_reduced(fields | {"lines": lines} if lines else fields))


# What encoding raises for what is no JSON.
NOT_JSON = (TypeError, ValueError, OverflowError, RecursionError, msgspec.EncodeError)


def _reduced(value: object) -> Any:
    if isinstance(value, str):
        return clean(value)  # half a character, as some file names have
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
    """Return the values with NaN and the infinities as text, which is what JSON can hold.

    >>> spell_non_finite({"kl": float("nan"), "loss": 0.5})
    {'kl': 'NaN', 'loss': 0.5}
    """
    return {k: _SPELLING.get(repr(v), v) if isinstance(v, float) else v for k, v in values.items()}


_SPELLING = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
