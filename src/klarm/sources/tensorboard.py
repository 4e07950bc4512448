"""TensorBoard event files: TFRecords of Event protobufs. Only scalars are read."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

from klarm.sources.row import LogRow, SourceError

_NAME = "tfevents"
# A record: length, checksum of the length, that many bytes, their checksum.
_HEAD = struct.Struct("<QI")
_TAIL = 4
# Scalars are far smaller. Graphs and images are skipped without keeping them in memory.
_MAX_RECORD = 2**20

# Field numbers of the messages, as in TensorFlow's event.proto, summary.proto and tensor.proto.
_EVENT_STEP, _EVENT_SUMMARY = 2, 5
_SUMMARY_VALUE = 1
_VALUE_TAG, _VALUE_SIMPLE, _VALUE_TENSOR = 1, 2, 8
_TENSOR_TYPE, _TENSOR_CONTENT, _TENSOR_FLOATS, _TENSOR_DOUBLES = 1, 4, 5, 6
# Types of tensors that are numbers, and how their content is packed.
_PACKED = {1: "<f", 2: "<d", 3: "<i", 9: "<q", 19: "<e"}


def is_event_file(path: Path) -> bool:
    """Return whether a file is an event file, by its name as TensorBoard does."""
    return _NAME in path.name


def event_files(folder: Path) -> list[Path]:
    """Return the event files of the run in a folder or below it, in the order of their creation.

    Raises SourceError if there are several runs. A trainer that is restarted begins a new file.
    """
    if files := _files_in(folder):
        return files
    # Subfolders of a run (hyperparameters, grouped scalars) are not separate runs.
    runs: list[Path] = []
    for below in sorted({path.parent for path in folder.rglob(f"*{_NAME}*")}):
        if not any(run in below.parents for run in runs):
            runs.append(below)
    if len(runs) > 1:
        names = ", ".join(str(run) for run in runs[:5]) + (", ..." if len(runs) > 5 else "")
        raise SourceError(f"{folder} holds {len(runs)} TensorBoard runs; name one: {names}")
    return _files_in(runs[0]) if runs else []


def _files_in(folder: Path) -> list[Path]:
    return sorted((path for path in folder.glob(f"*{_NAME}*") if path.is_file()), key=order)


def order(file: Path) -> list[str | int]:
    """Return the sort key of an event file: the numbers in its name, oldest first.

    The first number is the time in seconds; the last one counts the files of a process.

    >>> order(Path("events.out.tfevents.17.host.5.10"))
    ['events.out.tfevents.', 17, '.host.', 5, '.', 10, '']
    """
    parts = re.split(r"([0-9]+)", file.name)
    return [int(part) if place % 2 else part for place, part in enumerate(parts)]


class EventReader:
    """Reads one event file: the scalars of a step are a row.

    - A value for an earlier step counts for the current step, because frameworks log some values
      late, and some count epochs. Only a tag whose own steps go back is a rollback.
    - An incomplete last record waits for the rest.
    """

    def __init__(self, name: str, say: Callable[[str], None]) -> None:
        self._name = name
        self._say = say
        self._bytes = bytearray()
        self._stepping_over = 0  # bytes of a large record that are still to be skipped
        self._damaged = False
        self._step: int | None = None
        self._row: dict[str, object] = {}  # of that step, so far
        self._last_steps: dict[str, int] = {}  # by tag

    def feed(self, piece: bytes) -> Iterator[LogRow]:
        """Yield the rows that are complete, because another step has begun."""
        for record in self._records(piece):
            try:
                step, scalars = _scalars(record)
            except (ValueError, IndexError, struct.error):
                continue  # a record of another kind
            for tag, value in scalars:
                yield from self._add(step, tag, value)

    def quiet(self) -> Iterator[LogRow]:
        """Yield what was read of the current step."""
        if self._row:
            row, self._row = self._row, {}
            yield LogRow(self._step, row)

    def end(self) -> Iterator[LogRow]:
        """Yield what was read of the last step."""
        return self.quiet()

    def _add(self, step: int, tag: str, value: float) -> Iterator[LogRow]:
        back = step < self._last_steps.get(tag, step)
        if back:
            self._last_steps.clear()
        self._last_steps[tag] = step
        if self._step is not None and not back:
            step = max(step, self._step)
        if step != self._step or tag in self._row:
            yield from self.quiet()
        self._step = step
        self._row[tag] = value

    def _records(self, piece: bytes) -> Iterator[bytes]:
        if self._damaged:
            return
        if self._stepping_over:
            over = min(self._stepping_over, len(piece))
            self._stepping_over -= over
            piece = piece[over:]
        self._bytes += piece
        at = 0
        while len(self._bytes) - at >= _HEAD.size:
            length, checksum = _HEAD.unpack_from(self._bytes, at)
            if checksum != _masked_crc(self._bytes[at : at + 8]):
                self._damaged = True
                self._say(f"{self._name} is damaged; the rest of it is not read")
                at = len(self._bytes)
                break
            end = at + _HEAD.size + length + _TAIL
            if length <= _MAX_RECORD:
                if end > len(self._bytes):
                    break
                yield bytes(self._bytes[at + _HEAD.size : end - _TAIL])
            elif end > len(self._bytes):
                self._stepping_over = end - len(self._bytes)
                end = len(self._bytes)
            at = end
        del self._bytes[:at]


def _scalars(event: bytes) -> tuple[int, list[tuple[str, float]]]:
    """Return the step of an event and its scalars."""
    step = 0
    values: list[tuple[str, float]] = []
    for number, content in _fields(event):
        if number == _EVENT_STEP and isinstance(content, int):
            step = content - (content >> 63 << 64)
        elif number == _EVENT_SUMMARY and isinstance(content, bytes):
            for inner, value in _fields(content):
                if inner == _SUMMARY_VALUE and isinstance(value, bytes):
                    tag, scalar = _value(value)
                    if scalar is not None:
                        values.append((tag, scalar))
    return step, values


def _value(message: bytes) -> tuple[str, float | None]:
    tag = ""
    scalar: float | None = None
    for number, content in _fields(message):
        if not isinstance(content, bytes):
            continue
        if number == _VALUE_TAG:
            tag = content.decode("utf-8", "replace")
        elif number == _VALUE_SIMPLE:
            scalar = _number("<f", content)
        elif number == _VALUE_TENSOR:
            scalar = _scalar_tensor(content)
    return tag, scalar


def _scalar_tensor(message: bytes) -> float | None:
    kind = 0
    content: tuple[str, bytes] | None = None
    for number, value in _fields(message):
        if number == _TENSOR_TYPE and isinstance(value, int):
            kind = value
        elif isinstance(value, bytes) and number == _TENSOR_CONTENT and kind in _PACKED:
            content = (_PACKED[kind], value)
        elif isinstance(value, bytes) and number in (_TENSOR_FLOATS, _TENSOR_DOUBLES):
            packed = "<f" if number == _TENSOR_FLOATS else "<d"
            if content is not None:
                return None  # several unpacked values
            content = (packed, value)
    return None if content is None else _number(*content)


def _number(packed: str, content: bytes) -> float | None:
    """Return the number of a field; None if it has none or several."""
    if len(content) != struct.calcsize(packed):
        return None
    return float(struct.unpack(packed, content)[0])


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the fields of a protobuf message: varints as numbers, everything else as bytes."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        kind = key & 7
        if kind == 0:
            value, at = _varint(message, at)
            yield key >> 3, value
            continue
        if kind == 2:
            length, at = _varint(message, at)
        elif kind in (1, 5):
            length = 8 if kind == 1 else 4
        else:
            raise ValueError("no protobuf message")
        if at + length > len(message):
            raise ValueError("a torn protobuf message")
        yield key >> 3, message[at : at + length]
        at += length


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("no protobuf number")


def _crc_table() -> list[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)  # noqa: PLW2901
        table.append(value)
    return table


_CRC_TABLE = _crc_table()


def _masked_crc(content: bytes | bytearray) -> int:
    """Return the CRC-32C of some bytes as TFRecords hold it, rotated and shifted."""
    crc = 0xFFFFFFFF
    for byte in content:
        crc = (crc >> 8) ^ _CRC_TABLE[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF
