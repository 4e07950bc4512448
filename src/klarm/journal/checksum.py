"""Checksums: the last field of every line reveals damage, and other JSON readers can ignore it."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Literal

_FIELD = b',"crc":"'
_LENGTH = len(_FIELD) + 8 + len(b'"}')

Verdict = Literal["good", "bad", "none"]


def sealed(json: bytes) -> bytes:
    """Return a JSON object as a line that ends with the checksum of the bytes before it.

    >>> sealed(b'{"type":"finish","time":1.5,"steps":7}')
    b'{"type":"finish","time":1.5,"steps":7,"crc":"0fffd6cc"}\\n'
    """
    body = json[:-1]
    return b'%b,"crc":"%08x"}\n' % (body, zlib.crc32(body))


def is_whole(line: bytes) -> bool:
    """Return whether a line, given without its newline, ends with the right checksum.

    >>> is_whole(sealed(b'{"type":"finish"}').rstrip()), is_whole(b'{"type":"finish"}')
    (True, False)
    """
    return line[-_LENGTH:] == b',"crc":"%08x"}' % zlib.crc32(line[:-_LENGTH])


def count_whole(lines: Iterable[bytes], beginning: bytes) -> int:
    """Return how many lines at the start have this beginning and the right checksum.

    This is `is_whole` written out: a call per line would take longer than the checksum.

    >>> lines = [sealed(b'{"n":%d}' % n).rstrip() for n in (1, 2, 3)]
    >>> count_whole(lines, b'{"n":'), count_whole([*lines[:2], b'{"n":3}', lines[0]], b'{"n":')
    (3, 2)
    """
    crc32, head, tail = zlib.crc32, len(beginning), -_LENGTH
    count = 0
    for line in lines:
        if line[:head] != beginning or line[tail:] != b',"crc":"%08x"}' % crc32(line[:tail]):
            break
        count += 1
    return count


def checked(line: bytes) -> Verdict:
    """Return whether the checksum of a line is "good" or "bad", or "none" if it has none.

    >>> line = sealed(b'{"type":"finish","time":1.5,"steps":7}')
    >>> checked(line), checked(line.replace(b"7", b"8")), checked(b'{"type":"finish"}')
    ('good', 'bad', 'none')
    """
    if is_whole(line):
        return "good"  # the fast path: nearly every line
    end = -_LENGTH
    body = line.rstrip(b"\r\n")
    if body[end : end + len(_FIELD)] != _FIELD or not body.endswith(b'"}'):
        return "none"
    return "good" if body[-10:-2] == b"%08x" % zlib.crc32(body[:end]) else "bad"
