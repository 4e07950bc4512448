"""Checksums: the last field of every line, so that damage is noticed and nobody else minds it."""

from __future__ import annotations

import zlib
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
    """Tell whether a line without its newline is as it was written, of a format with checksums.

    >>> is_whole(sealed(b'{"type":"finish"}').rstrip()), is_whole(b'{"type":"finish"}')
    (True, False)
    """
    return line[-_LENGTH:] == b',"crc":"%08x"}' % zlib.crc32(line[:-_LENGTH])


def checked(line: bytes) -> Verdict:
    """Tell whether a line is as it was written; "none" if it has no checksum.

    >>> line = sealed(b'{"type":"finish","time":1.5,"steps":7}')
    >>> checked(line), checked(line.replace(b"7", b"8")), checked(b'{"type":"finish"}')
    ('good', 'bad', 'none')
    """
    if is_whole(line):
        return "good"  # nearly every line
    end = -_LENGTH
    body = line.rstrip(b"\r\n")
    if body[end : end + len(_FIELD)] != _FIELD or not body.endswith(b'"}'):
        return "none"
    return "good" if body[-10:-2] == b"%08x" % zlib.crc32(body[:end]) else "bad"
