"""TensorBoard on the same data: its event file, its server, and its page in the same Chromium."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from page.chromium import Painted, painted, started
from page.journals import BEGAN, METRICS, SPIKE, STEPS, rows

_LOADS_WITHIN = 900.0
# Only the existence of a chart is visible from outside; it may be drawn a little later.
_CHARTS = "line-chart canvas"


def first_paint(root: Path) -> Painted:
    """Return how long the time series take to be drawn, once the server has read all data."""
    root.mkdir()
    _write_events(root / "long" / f"events.out.tfevents.{BEGAN:.0f}.bench.1.0")
    with _serving(root) as address, started() as browser:
        begin = time.perf_counter()
        _wait_until_read(address)
        print(f"TensorBoard: reading took {time.perf_counter() - begin:.0f} s")
        return painted(browser, f"{address}/#timeseries", _CHARTS, len(METRICS))


@contextlib.contextmanager
def _serving(root: Path) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-m", "tensorboard.main", "--logdir", str(root), "--port", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


def _wait_until_read(address: str) -> None:
    """Wait for the last step, because TensorBoard shows what it has read so far."""
    url = f"{address}/data/plugin/scalars/scalars?run=long&tag=train%2Fkl"
    until = time.monotonic() + _LOADS_WITHIN
    while time.monotonic() < until:
        with contextlib.suppress(urllib.error.URLError, ConnectionError, ValueError):
            with urllib.request.urlopen(url, timeout=30) as answer:
                points = json.load(answer)
            if points and points[-1][1] == STEPS - 1:
                return
        time.sleep(0.5)
    raise AssertionError("TensorBoard has not read its event file")


def _write_events(path: Path) -> None:
    """Write one event per step with all its values, as protocol buffers."""
    path.parent.mkdir(parents=True)
    heads = [_field(1, f"train/{name}".encode()) + b"\x15" for name in METRICS]
    values = b"".join(b"\x0a%c%b\0\0\0\0" % (len(head) + 4, head) for head in heads)
    places = np.cumsum([len(head) + 6 for head in heads]) - 4  # of the floats within `values`
    table = np.array([list(row.values()) for row in rows(STEPS, spike=SPIKE)], dtype="<f4")
    with path.open("wb") as file:
        file.write(_framed(np.frombuffer(_at(BEGAN) + b"\x1a\x0dbrain.Event:2", "u1")[None]))
        for first in range(0, STEPS, 50_000):
            steps = np.arange(first, min(first + 50_000, STEPS))
            for size in range(1, 4):  # bytes of the varint: events of one length are made together
                ours = steps[(steps >= 128 ** (size - 1) * (size > 1)) & (steps < 128**size)]
                if not len(ours):
                    continue
                begin = b"\x09" + bytes(8) + b"\x10" + bytes(size) + b"\x2a" + _varint(len(values))
                events = np.tile(np.frombuffer(begin + values, "u1"), (len(ours), 1))
                events[:, 1:9] = (BEGAN + ours).astype("<f8")[:, None].view("u1")
                for at in range(size):
                    more = 128 if at < size - 1 else 0
                    events[:, 10 + at] = ours >> 7 * at & 127 | more
                for column, place in enumerate(places.tolist()):
                    number = np.ascontiguousarray(table[ours, column])
                    events[:, len(begin) + place : len(begin) + place + 4] = number[:, None].view(
                        "u1"
                    )
                file.write(_framed(events))


def _at(time_: float) -> bytes:
    return b"\x09" + struct.pack("<d", time_)


def _field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + _varint(value >> 7)


_Bytes = NDArray[np.uint8]


def _framed(events: _Bytes) -> bytes:
    """Return events of one length as records, each with its length and checksums."""
    length = np.frombuffer(struct.pack("<Q", events.shape[1]), "u1")[None]
    frame = np.concatenate([length, _checksums(length)], axis=1)
    frames = np.repeat(frame, len(events), axis=0)
    return np.concatenate([frames, events, _checksums(events)], axis=1).tobytes()


def _checksums(events: _Bytes) -> _Bytes:
    """Return the masked CRC-32C of each event, as four bytes."""
    register = np.full(len(events), 0xFFFFFFFF, np.uint32)
    for column in range(events.shape[1]):
        register = _TABLE[(register ^ events[:, column]) & 0xFF] ^ (register >> np.uint32(8))
    crc = ~register
    masked = (crc >> np.uint32(15) | crc << np.uint32(17)) + np.uint32(0xA282EAD8)
    return masked.astype("<u4")[:, None].view("u1")


def _table() -> NDArray[np.uint32]:
    entries = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        entries = np.where(entries & 1, entries >> 1 ^ np.uint32(0x82F63B78), entries >> 1)
    return entries


_TABLE = _table()
