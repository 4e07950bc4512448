"""A snapshot, and the folder of snapshots beside a journal."""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from klarm.descriptors import open_own
from klarm.journal import SavedFold
from klarm.snapshots.state import UnfitError

FOLDER: Final = "snapshots"
MAX_BYTES: Final = 2**20  # the size of a snapshot file
_MAX_UNPACKED: Final = 64 * 2**20
_MAGIC: Final = b"klarm snapshot 1\n"
_SUFFIX: Final = ".snapshot"
EVERY_ROWS: Final = 2_000
_MAX_FILES, _AGE_RATIO = 8, 3  # each file is up to this many times as old as the next newer one
# The journal is read in small pieces, because the allocator keeps what a thread needs at its peak.
CHECKSUM_CHUNK: Final = 2**16


class Snapshot(msgspec.Struct, frozen=True):
    """The state of a run after one of its rows."""

    step: int  # the current step
    rows: int  # how many rows were logged before
    offset: int  # where the rest of the journal begins
    settings: str  # a hash of the settings that the state depends on
    seen: list[str]  # the metrics that the current step already has
    logged: dict[str, int]  # the last step of each metric
    active: list[str]  # the detectors that are active
    state: bytes  # msgpack


class StoredSnapshot(msgspec.Struct, frozen=True):
    """A snapshot as stored on disk, with a summary of the journal up to the snapshot's offset."""

    snapshot: Snapshot
    fold: SavedFold
    crc: int  # the checksum of the journal up to the offset
    damaged: int  # how many lines up to the offset are damaged
    first_damaged: int  # the number of the first of them


class Place(NamedTuple):
    """The position of a snapshot in its run, as given by the name of its file."""

    offset: int
    step: int
    rows: int
    path: Path


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(StoredSnapshot).decode


def pack_state(data: Mapping[str, Any]) -> bytes:
    """Return captured state as bytes; raise UnfitError if msgpack cannot hold it."""
    try:
        return _encode(data)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise UnfitError(f"{type(error).__name__}: {error}") from None


def unpack_state(state: bytes) -> dict[str, Any]:
    """Return captured state from bytes, or raise UnfitError."""
    try:
        data = msgspec.msgpack.decode(state)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnfitError(str(error)) from None
    if not isinstance(data, dict):
        raise UnfitError("it does not hold any state")
    return data


def pack(stored: StoredSnapshot) -> bytes:
    """Return the content of a snapshot file; raise UnfitError if it is too large."""
    # With this window, zlib needs 64 KiB instead of 256, and the result is 3 % larger.
    compressor = zlib.compressobj(1, wbits=13, memLevel=6)
    packed = compressor.compress(_encode(stored)) + compressor.flush()
    content = b"".join([_MAGIC, hashlib.sha256(packed).digest(), packed])
    if len(content) > MAX_BYTES:
        raise UnfitError(f"it has {len(content)} bytes; the limit is {MAX_BYTES}")
    return content


def unpack(content: bytes) -> StoredSnapshot:
    """Return the snapshot from the content of a file, or raise UnfitError."""
    begin = len(_MAGIC) + hashlib.sha256().digest_size
    packed = content[begin:]
    if content[: len(_MAGIC)] != _MAGIC or len(content) > MAX_BYTES:
        raise UnfitError("it is not a snapshot that this version of klarm can read")
    if hashlib.sha256(packed).digest() != content[len(_MAGIC) : begin]:
        raise UnfitError("it is damaged")
    try:
        unpacker = zlib.decompressobj()
        return _decode(unpacker.decompress(packed, _MAX_UNPACKED))
    except (zlib.error, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnfitError(str(error)) from None


class SnapshotFolder:
    """The snapshots of a run on disk. The name of each file is its position in the journal."""

    def __init__(self, run: Path, every: int = EVERY_ROWS) -> None:
        self._every = every  # rows
        self.path = run.absolute() / FOLDER  # the script may change its directory

    def places(self) -> list[Place]:
        """Return the positions of all snapshots, newest first."""
        found = []
        try:
            entries = os.listdir(self.path)  # noqa: PTH208
        except OSError:
            return []
        for name in entries:
            offset, _, rest = name.removesuffix(_SUFFIX).partition("-")
            step, _, rows = rest.partition("-")
            if name.endswith(_SUFFIX) and all(n.isdecimal() for n in (offset, step, rows)):
                found.append(Place(int(offset), int(step), int(rows), self.path / name))
        return sorted(found, reverse=True)

    def read(self, place: Place) -> StoredSnapshot:
        """Read one snapshot, or raise UnfitError."""
        try:
            with place.path.open("rb") as file:
                stored = unpack(file.read(MAX_BYTES + 1))
        except OSError as error:
            raise UnfitError(error.strerror or "it cannot be read") from None
        snapshot = stored.snapshot
        if (snapshot.offset, snapshot.step, snapshot.rows) != place[:3]:
            raise UnfitError("its content does not match its file name")
        return stored

    def write(self, snapshot: Snapshot, content: bytes) -> None:
        """Write a snapshot, and delete those that are no longer needed. May raise OSError."""
        self.path.mkdir(exist_ok=True)
        name = f"{snapshot.offset:015d}-{snapshot.step}-{snapshot.rows}{_SUFFIX}"
        unfinished = self.path / "unfinished.tmp"
        file = open_own(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            left = content
            while left:
                left = left[os.write(file, left) :]
        finally:
            os.close(file)
        unfinished.replace(self.path / name)
        places = self.places()
        kept = thinned([place.rows for place in places], self._every)
        self.delete(*(place for place in places if place.rows not in kept))

    def delete_from(self, step: int) -> None:
        """Delete the snapshots at or after a step: training was rolled back to it."""
        self.delete(*(place for place in self.places() if place.step >= step))

    def delete(self, *places: Place) -> None:
        """Delete snapshots, ignoring errors."""
        for place in places:
            try:
                place.path.unlink(missing_ok=True)
            except OSError:  # an extra file does no harm: it is checked against the journal
                continue


def thinned(rows: Sequence[int], every: int = EVERY_ROWS) -> set[int]:
    """Return which snapshots to keep, given the row of each: the older, the fewer.

    Ages are divided into bands, each three times as wide as the one before it. The oldest snapshot
    of each band is kept, and so moves into the next band as it ages. The newest is kept as well.

    >>> sorted(thinned(range(2_000, 60_001, 2_000)))
    [2000, 8000, 44000, 56000, 60000]
    """
    if not rows:
        return set()
    newest = max(rows)
    oldest: dict[int, int] = {}
    for row in rows:
        band, limit = 1, every
        while newest - row >= limit:
            band, limit = band + 1, limit * _AGE_RATIO
        oldest[band] = min(oldest.get(band, row), row)
    oldest[1] = newest
    return {oldest[band] for band in sorted(oldest)[:_MAX_FILES]}


def checksums(journal: Path, offsets: Iterable[int]) -> dict[int, int]:
    """Return the CRC-32 of a journal up to each offset, leaving out offsets beyond its end."""
    found: dict[int, int] = {}
    crc = at = 0
    with journal.open("rb", buffering=0) as file:
        for offset in sorted(offsets):
            while at < offset and (chunk := file.read(min(CHECKSUM_CHUNK, offset - at))):
                crc, at = zlib.crc32(chunk, crc), at + len(chunk)
            if at != offset:
                break
            found[offset] = crc
    return found
