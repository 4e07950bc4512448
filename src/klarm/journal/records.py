"""The lines of a journal: what each kind of them holds. Documented in docs/journal.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from klarm.metrics import Kind, Origin
from klarm.types import Alert, Blip, Event


class Started(msgspec.Struct, tag_field="type", tag="run"):
    """The first line, and one whenever a process takes the run up: how it is watched from there."""

    run: str
    started: float
    klarm: str
    host: str
    config: dict[str, Any]
    framework: str = ""  # what logs, as far as it was said


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


class Step(msgspec.Struct, tag_field="type", tag="step"):
    """What was logged at one step, non-finite values as text."""

    step: int
    time: float
    metrics: Mapping[str, Any]


class Checkpoint(msgspec.Struct, tag_field="type", tag="checkpoint"):
    """The trainer saved its state."""

    step: int
    time: float
    path: str


class Resume(msgspec.Struct, tag_field="type", tag="resume"):
    """Training goes on from this step: rows at or after it were rolled back and no longer count."""

    step: int
    time: float


class Source(msgspec.Struct, tag_field="type", tag="source"):
    """From here on, steps are read from this log: after those of its steps recorded already."""

    path: str
    kept: int


class Finish(msgspec.Struct, tag_field="type", tag="finish"):
    """The run ended and said so."""

    time: float
    steps: int


Record = Started | Bound | Step | Alert | Event | Blip | Checkpoint | Resume | Source | Finish

decode = msgspec.json.Decoder(Record).decode
_encode = msgspec.json.Encoder().encode


def encode(record: Record) -> bytes:
    """Return a record as JSON, its non-finite numbers as text."""
    if isinstance(record, Alert):
        record = msgspec.structs.replace(record, metrics=spell_non_finite(record.metrics))
    elif isinstance(record, Event | Blip):
        peak = spell_non_finite({"peak": record.peak})["peak"]
        record = msgspec.structs.replace(record, peak=peak)
    return _encode(record)


def encode_step(step: int, time: float, values: Mapping[str, float]) -> bytes:
    """Return a step as JSON: for every call of `log`, so it looks for non-finite ones first."""
    total = sum(values.values())
    if total - total != 0.0:  # a NaN or an infinity is among them
        return _encode(Step(step, time, spell_non_finite(values)))
    return _encode(Step(step, time, values))


def spell_non_finite(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values with NaN and the infinities as text, which is what JSON can hold.

    >>> spell_non_finite({"kl": float("nan"), "loss": 0.5})
    {'kl': 'NaN', 'loss': 0.5}
    """
    return {k: _SPELLING.get(repr(v), v) if isinstance(v, float) else v for k, v in values.items()}


_SPELLING = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
