"""TensorBoard event files, written by an independent encoder."""

from __future__ import annotations

import math
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from event_file import event, masked, message, record, tensor, varint, version
from klarm.sources import LogRow, SourceError, read_log
from klarm.sources.tensorboard import EventReader

NAME = "events.out.tfevents.1763200000.host.1.0"


def read(path: str | Path) -> list[LogRow]:
    return [row for row in read_log(Path(path), pytest.fail) if isinstance(row, LogRow)]


def write(*records: bytes, name: str = NAME) -> None:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_bytes(version() + b"".join(records))


def test_the_scalars_of_a_step_are_a_row() -> None:
    """An event may hold one scalar or several."""
    write(event(1, train__kl=0.5), event(1, reward=1.0), event(2, train__kl=0.25, reward=2.0))
    rows = [LogRow(1, {"train/kl": 0.5, "reward": 1.0}), LogRow(2, {"train/kl": 0.25, "reward": 2})]
    assert read(NAME) == rows
    assert read(".") == rows


def test_a_tensor_with_one_number_is_a_scalar_and_a_longer_one_is_not() -> None:
    """All encodings that writers use are read."""
    write(
        event(
            1,
            float_val=tensor(1, message(5, struct.pack("<f", 0.5))),
            double_val=tensor(2, message(6, struct.pack("<d", 0.1))),
            float_alone=tensor(1, varint(5 << 3 | 5) + struct.pack("<f", 0.25)),
            content=tensor(1, message(4, struct.pack("<f", 0.75))),
            content64=tensor(9, message(4, struct.pack("<q", -3))),
            several=tensor(1, message(5, struct.pack("<ff", 0.5, 0.5))),
            text=tensor(7, message(8, b"words")),
            picture=message(4, b"\x08\x01"),
            nothing=b"",
        )
    )
    (row,) = read(NAME)
    assert row.metrics == {
        "float_val": 0.5,
        "double_val": 0.1,
        "float_alone": 0.25,
        "content": 0.75,
        "content64": -3.0,
    }


def test_non_finite_values_are_read() -> None:
    """NaN matters most."""
    write(event(1, kl=math.nan, loss=-math.inf))
    (row,) = read(NAME)
    assert math.isnan(float(str(row.metrics["kl"])))
    assert row.metrics["loss"] == -math.inf


def test_a_value_of_an_earlier_step_counts_for_the_current_step() -> None:
    """It may be late or counted in epochs. It is neither lost nor a rollback."""
    write(
        event(1, reward=1.0),
        event(2, reward=2.0),
        event(1, kl=0.1),
        event(3, reward=3.0),
        event(2, kl=0.2),
    )
    assert read(NAME) == [
        LogRow(1, {"reward": 1.0}),
        LogRow(2, {"reward": 2.0, "kl": pytest.approx(0.1)}),
        LogRow(3, {"reward": 3.0, "kl": pytest.approx(0.2)}),
    ]


def test_a_tag_that_goes_back_is_a_rollback() -> None:
    """The other tags go back with it."""
    steps = [1, 2, 3, 2, 3]
    write(*[event(step, kl=0.5, reward=1.0) for step in steps])
    assert [row.step for row in read(NAME)] == steps


def test_a_tag_that_occurs_twice_in_a_step_makes_two_rows() -> None:
    """The monitor decides which counts."""
    write(event(4, kl=0.5), event(4, kl=0.75))
    assert read(NAME) == [LogRow(4, {"kl": 0.5}), LogRow(4, {"kl": 0.75})]


def test_several_files_are_read_in_the_order_of_their_creation() -> None:
    """A restarted trainer begins a new file."""
    write(event(1, kl=0.5), event(2, kl=0.5), name=f"tb/{NAME}")
    write(event(2, kl=0.75), name=f"tb/{NAME.replace('3200000', '3200009')}")
    write(name=f"tb/{NAME.replace('3200000', '3200005')}")
    write(event(0, hp_metric=1.0), name=f"tb/1763200000.7/{NAME}")
    assert [(row.step, row.metrics["kl"]) for row in read("tb")] == [(1, 0.5), (2, 0.5), (2, 0.75)]


def test_a_run_in_a_subfolder_is_found_and_several_are_an_error() -> None:
    """Hugging Face's trainers write to a subfolder of the output folder."""
    write(event(1, kl=0.5), name=f"out/runs/Nov15_host/{NAME}")
    write(event(0, hp_metric=1.0), name=f"out/runs/Nov15_host/1763200000.7/{NAME}")
    assert read("out") == [LogRow(1, {"kl": 0.5})]
    write(event(1, kl=0.5), name=f"out/runs/Nov16_host/{NAME}")
    with pytest.raises(
        SourceError, match="holds 2 TensorBoard runs; name one: out/runs/Nov15_host"
    ):
        read("out")


def test_an_incomplete_last_record_is_left_out() -> None:
    """It may be cut anywhere; the rows before it are read."""
    whole = version() + event(1, kl=0.5)
    last = event(2, kl=0.5)
    for length in range(len(last)):
        Path(NAME).write_bytes(whole + last[:length])
        assert read(NAME) == [LogRow(1, {"kl": 0.5})]


def test_a_large_record_is_skipped() -> None:
    """A graph or an image is not kept in memory."""
    length = struct.pack("<Q", 3 * 2**20)
    large = length + masked(length) + bytes(3 * 2**20) + b"its checksum is not looked at"[:4]
    write(event(1, kl=0.5), large, event(2, kl=0.75))
    assert [row.step for row in read(NAME)] == [1, 2]
    reader = EventReader(NAME, pytest.fail)
    held = []
    content = large + event(2, kl=0.75)
    for at in range(0, len(content), 1000):
        list(reader.feed(content[at : at + 1000]))
        held.append(len(reader._bytes))
    assert max(held) < 2000
    assert list(reader.quiet()) == [LogRow(2, {"kl": 0.75})]


def test_a_damaged_file_is_read_up_to_the_damage() -> None:
    """The damage is reported."""
    said: list[str] = []
    Path(NAME).write_bytes(version() + event(1, kl=0.5) + b"\x00" * 100)
    assert list(read_log(Path(NAME), said.append)) == [LogRow(1, {"kl": 0.5})]
    assert said == [f"{NAME} is damaged; the rest of it is not read"]


def test_a_step_can_be_negative() -> None:
    """It is encoded as a signed number."""
    write(event(-1, kl=0.5))
    assert read(NAME)[0].step == -1


def test_a_file_without_scalars_is_refused() -> None:
    """It has nothing to watch."""
    write()
    with pytest.raises(SourceError, match="holds no rows: klarm reads"):
        read(NAME)


@given(st.lists(st.binary(max_size=60), max_size=5), st.integers(1, 50))
def test_records_with_any_content_are_harmless(contents: list[bytes], size: int) -> None:
    """They may be split into pieces anywhere; the rows after them are read."""
    reader = EventReader("x", pytest.fail)
    stream = b"".join(record(content) for content in contents) + event(2**40, zz=0.5)
    rows = [
        row for at in range(0, len(stream), size) for row in reader.feed(stream[at : at + size])
    ]
    rows += reader.end()
    assert rows[-1].metrics["zz"] == 0.5
