"""The record of deliveries: sealed lines, damage, and which lines are one message."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from klarm.delivery import log as deliveries
from klarm.delivery.log import Delivered
from klarm.journal import checked, sealed

OTHER = {"event": "escalated", "step": 20}
FOLDER = Path("run")
ENTRY = Delivered(
    id="kq7x2abc",
    seq=1,
    incident=3,
    event="opened",
    step=17,
    severity="warning",
    channel="slack",
    time=2000.0,
    outcome="sent",
    attempts=1,
    receipt={"ts": "17.0001"},
)


@pytest.fixture
def file(clean_place: None) -> Path:
    FOLDER.mkdir()
    return FOLDER / deliveries.FILE_NAME


def entries(folder: Path = FOLDER) -> tuple[list[Delivered], list[int]]:
    """Return what is read, and the offsets of damaged lines."""
    damaged: list[int] = []
    return [entry for _, entry in deliveries.read(folder, 0, damaged.append)], damaged


def test_every_line_is_sealed(file: Path) -> None:
    """And is read as it was written."""
    deliveries.append(FOLDER, ENTRY, ENTRY)
    assert [checked(line) for line in file.read_bytes().splitlines()] == ["good", "good"]
    assert entries() == ([ENTRY, ENTRY], [])


def test_a_damaged_line_is_skipped_and_reported(file: Path) -> None:
    """The lines around it count."""
    for _ in range(3):
        deliveries.append(FOLDER, ENTRY)
    lines = file.read_bytes().splitlines(keepends=True)
    lines[1] = lines[1].replace(b'"step":17', b'"step":18')
    file.write_bytes(b"".join(lines))
    assert entries() == ([ENTRY, ENTRY], [len(lines[0])])


def test_a_torn_line_is_reported_and_a_later_version_is_not(file: Path) -> None:
    """The one is damage, the other is not."""
    file.write_bytes(b'{"type":"delivery","began":10')
    deliveries.append(FOLDER, ENTRY)
    with file.open("ab") as lines:
        lines.write(sealed(b'{"type":"delivery","outcome":"read aloud"}'))
    assert entries() == ([ENTRY], [0])


@given(at=st.integers(0, 10_000), byte=st.integers(0, 255))
def test_whatever_byte_is_damaged_no_line_is_misread(at: int, byte: int) -> None:
    """A changed line is the same, or is not read at all."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        deliveries.append(Path(folder), ENTRY)
        path = Path(folder) / deliveries.FILE_NAME
        line = bytearray(path.read_bytes())
        line[at % (len(line) - 1)] = byte
        path.write_bytes(line)
        assert entries(Path(folder))[0] in ([ENTRY], [])


@pytest.mark.parametrize(
    ("later", "messages"),
    [
        (OTHER, 1),
        ({**OTHER, "message": "a1"}, 2),
        ({**OTHER, "time": 2001.0}, 2),
        ({**OTHER, "channel": "mail"}, 2),
        ({**OTHER, "outcome": "refused"}, 2),
        ({"repeat": 1}, 2),
    ],
)
def test_events_that_one_message_covered_are_grouped(
    later: dict[str, object], messages: int
) -> None:
    """A message is sent at one moment to one channel."""
    entries = [ENTRY, msgspec.structs.replace(ENTRY, **later)]
    assert len(deliveries.by_message(entries)) == messages
    assert [entry for group in deliveries.by_message(entries) for entry in group] == entries
