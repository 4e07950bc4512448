"""A snapshot, and the folder of them beside a journal."""

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
from klarm.snapshots.graph import UnfitError

FOLDER: Final = "snapshots"
MAX_BYTES: Final = 2**20  # of a file
_MAX_UNPACKED: Final = 64 * 2**20
_MAGIC: Final = b"klarm snapshot 1\n"
_SUFFIX: Final = ".snapshot"
EVERY_ROWS: Final = 2_000
_KEPT, _RATIO = 8, 3  # files, and by how much each is older than the one before it
_PIECE: Final = 2**20


class Snapshot(msgspec.Struct, frozen=True):
    """The state of a run behind one of its rows."""

    step: int  # under way
    rows: int  # so many were logged before
    offset: int  # of the journal, where what comes after begins
    settings: str  # a hash of what the state depends on
    seen: list[str]  # metrics that the step under way has had
    logged: dict[str, int]  # metrics and the last step of each
    active: list[str]  # detectors
    state: bytes  # msgpack


class StoredSnapshot(msgspec.Struct, frozen=True):
    """A snapshot as it lies on disk, with what the journal amounts to up to its place."""

    snapshot: Snapshot
    fold: SavedFold
    crc: int  # of the journal up to its place
    damaged: int  # lines up to there
    first_damaged: int


class Place(NamedTuple):
    """What a file's name says of it."""

    offset: int
    step: int
    rows: int
    path: Path


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(StoredSnapshot).decode


def pack_state(data: Mapping[str, Any]) -> bytes:
    """Return captured state as bytes; raise UnfitError for what msgpack cannot hold."""
    try:
        return _encode(data)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise UnfitError(f"{type(error).__name__}: {error}") from None


def unpack_state(state: bytes) -> dict[str, Any]:
    """Return the captured state that bytes hold."""
    try:
        data = msgspec.msgpack.decode(state)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnfitError(str(error)) from None
    if not isinstance(data, dict):
        raise UnfitError("it holds no state")
    return data


def pack(stored: StoredSnapshot) -> bytes:
    """Return a snapshot as a file holds it; raise UnfitError if it is too large."""
    packed = zlib.compress(_encode(stored), 1)
    content = b"".join([_MAGIC, hashlib.sha256(packed).digest(), packed])
    if len(content) > MAX_BYTES:
        raise UnfitError(f"it is of {len(content)} bytes, and {MAX_BYTES} is the limit")
    return content


def unpack(content: bytes) -> StoredSnapshot:
    """Return the snapshot that a file holds, or raise UnfitError."""
    begin = len(_MAGIC) + hashlib.sha256().digest_size
    packed = content[begin:]
    if content[: len(_MAGIC)] != _MAGIC or len(content) > MAX_BYTES:
        raise UnfitError("it is no snapshot that this klarm can read")
    if hashlib.sha256(packed).digest() != content[len(_MAGIC) : begin]:
        raise UnfitError("it is damaged")
    try:
        unpacker = zlib.decompressobj()
        return _decode(unpacker.decompress(packed, _MAX_UNPACKED))
    except (zlib.error, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnfitError(str(error)) from None


class SnapshotFolder:
    """The snapshots of a run on disk, a file each, named by where in the journal they belong."""

    def __init__(self, run: Path, every: int = EVERY_ROWS) -> None:
        self._every = every  # rows
        self.path = run.absolute() / FOLDER  # the script may change its directory

    def places(self) -> list[Place]:
        """Return what is there, the newest first."""
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
        """Return one of them, or raise UnfitError."""
        try:
            with place.path.open("rb") as file:
                stored = unpack(file.read(MAX_BYTES + 1))
        except OSError as error:
            raise UnfitError(error.strerror or "it cannot be read") from None
        snapshot = stored.snapshot
        if (snapshot.offset, snapshot.step, snapshot.rows) != place[:3]:
            raise UnfitError("it is of another place")
        return stored

    def write(self, snapshot: Snapshot, content: bytes) -> None:
        """Add one, and delete those that are no longer needed. May raise OSError."""
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
        """Delete those that training went back behind."""
        self.delete(*(place for place in self.places() if place.step >= step))

    def delete(self, *places: Place) -> None:
        """Delete some, as far as that is possible."""
        for place in places:
            try:
                place.path.unlink(missing_ok=True)
            except OSError:  # one too many does no harm: its place in the journal is checked
                continue


def thinned(rows: Sequence[int], every: int = EVERY_ROWS) -> set[int]:
    """Return which snapshots to keep, given how many rows each is of: the older, the fewer.

    Ages are divided into bands, each three times as wide as the one before it. The oldest of each
    band stays, and grows old until it belongs to the next; the newest stays, too.

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
            band, limit = band + 1, limit * _RATIO
        oldest[band] = min(oldest.get(band, row), row)
    oldest[1] = newest
    return {oldest[band] for band in sorted(oldest)[:_KEPT]}


def checksums(journal: Path, offsets: Iterable[int]) -> dict[int, int]:
    """Return the CRC-32 of a journal up to each of these offsets; of those it reaches."""
    found: dict[int, int] = {}
    crc = at = 0
    with journal.open("rb", buffering=0) as file:
        for offset in sorted(offsets):
            while at < offset and (piece := file.read(min(_PIECE, offset - at))):
                crc, at = zlib.crc32(piece, crc), at + len(piece)
            if at != offset:
                break
            found[offset] = crc
    return found
