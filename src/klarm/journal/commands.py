"""Commands: the file beside a journal through which people control a run.

`klarm ack`, `klarm close` and `klarm silence` append to it. The run reads it, and so does the
process that delivers notifications. A file of its own is needed because the journal has only one
writer.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from itertools import accumulate, islice
from pathlib import Path

import msgspec

from klarm.descriptors import open_own
from klarm.journal import locks
from klarm.journal.checksum import checked, sealed
from klarm.journal.lines import chunks_between
from klarm.text import clean_line
from klarm.types import Command

FILE_NAME = "commands.jsonl"
_MAX_NAME = 200

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Command).decode


def new_key() -> str:
    """Return a random key that identifies a command."""
    return os.urandom(6).hex()


def append_command(folder: Path, command: Command) -> None:
    """Append a command, or raise OSError. Several processes may do so at the same time."""
    append_lines(folder / FILE_NAME, sealed(_encode(with_clean_name(command))))


def with_clean_name(command: Command) -> Command:
    """Return a command with the author's name made safe to store and show: it can be any text."""
    return msgspec.structs.replace(command, by=clean_line(command.by, _MAX_NAME))


def read_commands(
    folder: Path, start: int = 0, on_damage: Callable[[int], None] | None = None
) -> Iterator[tuple[int, Command]]:
    """Yield the commands from an offset on, each with the offset at which its line ends.

    A line that is damaged or not written by klarm is skipped, and `on_damage` is called with its
    offset. Commands of later versions of klarm are skipped, too.
    """
    begin = start
    for end, line in read_lines(folder / FILE_NAME, start):
        if checked(line) == "good":
            with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
                yield end, _decode(line)
        elif line.strip() and on_damage is not None:
            on_damage(begin)
        begin = end


def damage_at(offset: int) -> str:
    """Return the message about a damaged line of the file."""
    return (
        f"{FILE_NAME} is damaged at byte {offset}: the line is skipped. If a command had no "
        "effect, run it again."
    )


def append_lines(path: Path, lines: bytes) -> None:
    """Append whole lines to a file that several processes write to, or raise OSError."""
    with locks.alone(path):
        append_alone(path, lines)


def append_alone(path: Path, lines: bytes) -> None:
    """Append whole lines to a file that no other process writes to, or raise OSError."""
    file = open_own(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
    try:
        if os.fstat(file).st_size and _last_byte(file) != b"\n":
            lines = b"\n" + lines  # a crash cut the last line short: start on a new one
        while lines:
            lines = lines[os.write(file, lines) :]
    finally:
        os.close(file)


def read_lines(path: Path, start: int = 0) -> Iterator[tuple[int, bytes]]:
    """Yield the complete lines of a file from an offset on, each with the offset where it ends."""
    if not path.is_file():  # it does not exist, or is a device, which may be endless
        return
    with path.open("rb") as file:
        for _, lines, end in chunks_between(file, start, os.fstat(file.fileno()).st_size):
            ends = accumulate((len(line) + 1 for line in lines), initial=start)
            if len(lines) == 1:  # of a line that is too long, only the beginning is there
                yield end, lines[0] + b"\n"
            else:
                yield from zip(islice(ends, 1, None), (line + b"\n" for line in lines), strict=True)
            start = end


def _last_byte(file: int) -> bytes:
    os.lseek(file, -1, os.SEEK_END)
    return os.read(file, 1)
