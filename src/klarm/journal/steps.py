"""Decodes many step lines of a journal in one call, because nearly every line is a step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import IO

import msgspec

from klarm.journal.checksum import is_whole
from klarm.journal.lines import chunks_between
from klarm.journal.records import DECODE_ERRORS, Step, decoded

_STEP = b'{"type":"step"'


class PlainStep(msgspec.Struct, tag_field="type", tag="step", gc=False):
    """A step whose values are all numbers, as the decoder has verified."""

    step: int
    time: float
    metrics: dict[str, float]


AnyStep = Step | PlainStep
_decode_lines = msgspec.json.Decoder(PlainStep).decode_lines


def decoded_steps(lines: Sequence[bytes]) -> Sequence[AnyStep]:
    """Return the steps on lines that begin like steps; unreadable ones are left out."""
    try:
        return _decode_lines(b"\n".join(lines))
    except DECODE_ERRORS:  # some value is text, such as "NaN"
        found = map(decoded, lines)
        return [step for step in found if isinstance(step, Step)]


def steps_of(file: IO[bytes], start: int, end: int, size: int) -> tuple[int, Sequence[AnyStep]]:
    """Return the valid steps of the next lines of about `size` bytes, and where these end."""
    for _, lines, stop in chunks_between(file, start, end, size):
        if stop > start:
            whole = [line for line in lines if line.startswith(_STEP) and is_whole(line)]
            return stop, decoded_steps(whole) if whole else []
    return start, []
