"""Writes TensorBoard event files byte by byte, apart from the code that reads them."""

from __future__ import annotations

import struct


def varint(value: int) -> bytes:
    value &= 2**64 - 1
    out = bytearray()
    while value > 127:
        out.append(value % 128 + 128)
        value //= 128
    return bytes([*out, value])


def message(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def crc32c(content: bytes) -> int:
    """Divide by the Castagnoli polynomial, bit by bit."""
    register = 0xFFFFFFFF
    for byte in content:
        register ^= byte
        for _ in range(8):
            low, register = register & 1, register >> 1
            if low:
                register ^= 0x82F63B78
    return register ^ 0xFFFFFFFF


def masked(content: bytes) -> bytes:
    crc = crc32c(content)
    return struct.pack("<I", ((crc >> 15 | crc << 17 & 0xFFFFFFFF) + 0xA282EAD8) % 2**32)


def record(content: bytes) -> bytes:
    length = struct.pack("<Q", len(content))
    return length + masked(length) + content + masked(content)


def simple(value: float) -> bytes:
    return varint(2 << 3 | 5) + struct.pack("<f", value)


def tensor(kind: int, content: bytes) -> bytes:
    return message(8, varint(1 << 3) + varint(kind) + message(2, b"") + content)


def event(step: int, **values: bytes | float) -> bytes:
    """Return a record with the values of a step; `__` in a name stands for a slash."""
    summary = b""
    for name, value in values.items():
        body = value if isinstance(value, bytes) else simple(value)
        summary += message(1, message(1, name.replace("__", "/").encode()) + body)
    time = varint(1 << 3 | 1) + struct.pack("<d", 1763200000.5)
    return record(time + varint(2 << 3) + varint(step) + message(5, summary))


def version() -> bytes:
    """Return the record that every event file begins with."""
    time = varint(1 << 3 | 1) + struct.pack("<d", 1763200000.5)
    return record(time + message(3, b"brain.Event:2"))
