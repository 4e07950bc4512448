"""The journal: valid JSON, one line per step, read back as it was written."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import get_args

import msgspec
import numpy as np
import pytest
from batches import surviving_rows
from hypothesis import given
from hypothesis import strategies as st
from msgspec import inspect

from klarm.journal import records
from klarm.journal.checksum import checked, sealed
from klarm.journal.file import FileJournal, MemoryJournal, run_folder
from klarm.journal.reading import read_journal
from klarm.journal.records import (
    Checkpoint,
    Finish,
    Resume,
    Started,
    Step,
    decoded,
    encode,
    spell_non_finite,
)
from klarm.settings.fields import ConfigError
from klarm.types import Command, Event
from made_alerts import made_alert


def silence(message: str) -> None:
    raise AssertionError(f"nothing should have been said, but: {message}")


ALERT = made_alert({"kl": 9.0, "mode": "rolling"})
OPENED = Event("opened", 1, "kl", "critical", 3, 3, [], 9.0, "confirmed", "", "", id="kaaaaaaa")


def lines(path: Path) -> list[dict[str, object]]:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    return [json.loads(line, parse_constant=refuse) for line in path.read_text().splitlines()]


def test_a_step_is_one_line_of_plain_json() -> None:
    """Non-finite values are text."""
    journal = FileJournal(Path("runs/a"), silence)
    journal.step(12, 1763200031.25, {"kl": 0.021, "loss": math.nan, "a": math.inf, "b": -math.inf})
    journal.close(1.0)
    assert lines(Path("runs/a/journal.jsonl")) == [
        {
            "type": "step",
            "step": 12,
            "time": 1763200031.25,
            "metrics": {"kl": 0.021, "loss": "NaN", "a": "Infinity", "b": "-Infinity"},
            "crc": "df406254",
        }
    ]


def test_every_record_is_read_back_as_it_was_written() -> None:
    """And tagged by its type."""
    records = [
        Started("a", 1.5, "0.1.0", "node", {"kl_explosion": {"min_std": 1e-4}}),
        made_alert({"kl": 9.0, "mode": "rolling"}),
        Checkpoint(100, 2.5, "out/checkpoint-100"),
        Resume(90, 3.5),
        Finish(4.5, 120),
    ]
    journal = FileJournal(Path("runs/a"), silence)
    for record in records:
        journal.record(record)
    journal.close(1.0)
    assert list(read_journal(journal.path)) == records
    tags = [line["type"] for line in lines(journal.path)]
    assert tags == ["run", "alert", "checkpoint", "resume", "finish"]


def test_every_type_of_record_is_read() -> None:
    """A reader skips those that are not in the union."""
    declared = {
        kind
        for kind in vars(records).values()
        if isinstance(kind, type) and kind.__module__ == records.__name__
        if issubclass(kind, msgspec.Struct) and kind.__struct_config__.tag
    }
    assert len(declared) > 5
    missing = declared - set(get_args(records.Record))
    assert missing == set(), "add these to the union Record of journal/records.py"


def test_an_alert_with_a_nan_is_still_json() -> None:
    """As its steps are."""
    alert = made_alert({"kl": math.nan})
    assert json.loads(encode(alert))["metrics"] == {"kl": "NaN"}


# Fields that hold the time of a clock, which is always finite.
CLOCKS = {"time", "started", "until_time"}


def example(kind: inspect.Type) -> object:
    """Return some value of a field's type."""
    if isinstance(kind, inspect.UnionType):
        return example(kind.types[0])
    if isinstance(kind, inspect.LiteralType):
        return kind.values[0]
    if isinstance(kind, inspect.ListType | inspect.DictType):
        return [] if isinstance(kind, inspect.ListType) else {}
    return "" if isinstance(kind, inspect.StrType) else 1


def with_nan(kind: inspect.Type) -> object:
    """Return a value of a field's type with a NaN in it, or None if it cannot hold one."""
    if isinstance(kind, inspect.UnionType):
        return next((nan for nan in map(with_nan, kind.types) if nan is not None), None)
    if isinstance(kind, inspect.DictType):
        value = with_nan(kind.value_type)
        return None if value is None else {"kl": value}
    if isinstance(kind, inspect.ListType):
        value = with_nan(kind.item_type)
        return None if value is None else [value]
    return math.nan if isinstance(kind, inspect.FloatType) else None


def test_no_record_is_lost_because_of_a_nan() -> None:
    """JSON has no NaN: it becomes null, which a reader accepts only where None is possible."""
    lost, tried = [], []
    for kind in get_args(records.Record):
        declared = inspect.type_info(kind)
        assert isinstance(declared, inspect.StructType)
        values = {field.name: example(field.type) for field in declared.fields if field.required}
        for field in declared.fields:
            nan = with_nan(field.type)
            if nan is not None and field.name not in CLOCKS:
                tried.append(f"{kind.__name__}.{field.name}")
                if decoded(encode(kind(**{**values, field.name: nan}))) is None:
                    lost.append(tried[-1])
    assert {"Alert.metrics", "Event.peak", "Event.notified", "Blip.peak"} <= {*tried}
    assert lost == [], (
        "a NaN in these fields makes the record unreadable: declare them as float | str and spell "
        "them in `encode` of journal/records.py, or as float | None"
    )


@given(st.dictionaries(st.text(max_size=20), st.floats(), max_size=12), st.integers(0, 2**50))
def test_any_values_survive_the_way_to_disk_and_back(values: dict[str, float], step: int) -> None:
    """To the last bit."""
    path = Path("one.jsonl")
    path.write_bytes(sealed(encode(Step(step, 1.0, spell_non_finite(values)))))
    (row,) = surviving_rows(path, set(values))
    assert not isinstance(row, Command)
    assert row[0] == step
    assert {name: repr(value) for name, value in row[1].items()} == {
        name: repr(value) for name, value in values.items()
    }


def test_what_a_killed_process_left_incomplete_is_removed_by_the_next() -> None:
    """A torn line, or a batch with lines missing: no reader has counted it."""
    journal = FileJournal(Path("runs/a"), silence)
    journal.record(Started("a", 1.5, "0.2.0", "node", {}))
    journal.step(1, 1.0, {"kl": 0.1}, [ALERT])
    journal.close(1.0)
    complete = journal.path.read_bytes()
    longer = FileJournal(Path("runs/a"), silence)
    longer.step(2, 1.0, {"kl": 0.1}, [ALERT, ALERT])
    longer.close(1.0)
    batch = journal.path.read_bytes()[len(complete) :]
    for length in range(1, len(batch)):
        journal.path.write_bytes(complete + batch[:length])
        resumed = FileJournal(Path("runs/a"), silence)
        resumed.close(1.0)
        assert journal.path.read_bytes() == complete
        assert f"was incomplete ({length} bytes)" in resumed.repaired
    journal.path.write_bytes(complete + batch)
    whole = FileJournal(Path("runs/a"), silence)
    whole.close(1.0)
    assert whole.repaired == ""
    assert journal.path.read_bytes() == complete + batch


def test_a_journal_torn_in_its_first_line_begins_anew() -> None:
    """There is nothing in it yet; but what is no journal of klarm's is not removed."""
    path = Path("runs/a/journal.jsonl")
    path.parent.mkdir(parents=True)
    for before, after in ((b'{"type":"run","run":"a","sta', b""), (b"my notes", b"my notes\n")):
        path.write_bytes(before)
        FileJournal(Path("runs/a"), silence).close(1.0)
        assert path.read_bytes() == after


def test_a_step_and_what_it_changed_are_one_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its line says how many follow, so a kill in between hides nothing: it undoes the step."""
    written: list[bytes] = []
    write = os.write

    def watch(file: int, data: bytes) -> int:
        written.append(bytes(data))
        return write(file, data)

    monkeypatch.setattr(os, "write", watch)
    journal = FileJournal(Path("runs/a"), silence)
    journal.step(1, 1.0, {"kl": 0.1})
    journal.step(2, 2.0, {"kl": math.nan}, [ALERT, OPENED])
    for head in (
        Resume(2, 3.0),
        Finish(4.0, 2),
        Command(command="close", key="a", time=1.0, by="ada"),
    ):
        journal.record(head, [OPENED])
    journal.close(1.0)
    heads = [json.loads(batch.split(b"\n")[0]) for batch in written]
    assert [(head["type"], head.get("lines")) for head in heads] == [
        ("step", None),
        ("step", 2),
        ("resume", 1),
        ("finish", 1),
        ("command", 1),
    ]
    assert [batch.count(b"\n") for batch in written] == [1, 3, 2, 2, 2]
    assert all(checked(line) == "good" for batch in written for line in batch.splitlines())


def test_a_record_that_is_no_json_costs_neither_the_step_nor_the_others() -> None:
    """A detector of the user's own may put anything into its alerts; it is said once."""
    said: list[str] = []
    journal = FileJournal(Path("runs/a"), said.append)
    odd = {"kl": np.float64(math.nan), "loss": np.float32(0.5), "mood": object(), "half": "\ud800"}
    wrong = msgspec.structs.replace(ALERT, metrics=odd)  # type: ignore[arg-type]
    endless: list[object] = []
    endless.append(endless)
    hopeless = msgspec.structs.replace(ALERT, metrics={"kl": endless})  # type: ignore[dict-item]
    for step in (1, 2):
        journal.step(step, 1.0, {"kl": 0.1}, [wrong, hopeless, OPENED])
    journal.close(1.0)
    metrics = {"kl": "NaN", "loss": 0.5, "mood": "<object>", "half": r"\ud800"}
    reduced = msgspec.structs.replace(ALERT, metrics=metrics)
    assert list(read_journal(journal.path)) == [
        *(Step(1, 1.0, {"kl": 0.1}, lines=2), reduced, OPENED),
        *(Step(2, 1.0, {"kl": 0.1}, lines=2), reduced, OPENED),
    ]
    (line,) = said
    assert (
        "an alert by kl_explosion is recorded without values that JSON cannot hold (TypeError"
        in line
    )


def test_a_name_that_is_no_text_costs_nothing_else() -> None:
    """Half a character, as a file name may have."""
    said: list[str] = []
    journal = FileJournal(Path("runs/a"), said.append)
    journal.step(1, 1.0, {"kl": math.inf, "half\ud800": 1.0}, [OPENED])
    journal.record(Checkpoint(1, 2.0, "out/\ud800"))
    journal.close(1.0)
    assert list(read_journal(journal.path)) == [
        Step(1, 1.0, {"kl": "Infinity", r"half\ud800": 1.0}, lines=1),
        OPENED,
        Checkpoint(1, 2.0, r"out/\ud800"),
    ]
    assert len(said) == 1


def test_types_and_fields_of_a_later_version_are_passed_over() -> None:
    """An older reader takes what it knows."""
    path = Path("journal.jsonl")
    path.write_bytes(
        sealed(b'{"type":"step","step":1,"time":1.0,"metrics":{"kl":0.1},"mood":"good"}')
        + sealed(b'{"type":"horoscope","sign":"aries"}')
    )
    damage: list[tuple[int, str]] = []
    assert len(list(read_journal(path, lambda *found: damage.append(found)))) == 1
    assert damage == []


def test_rolled_back_steps_no_longer_count() -> None:
    """A resume undoes what lies at or after its step; of a step's dicts the first value counts."""
    memory = MemoryJournal()
    on_disk = FileJournal(Path("runs/a"), silence)
    for journal in (memory, on_disk):
        for step in range(1, 9):
            journal.step(step, 0.0, {"kl": float(step)})
        journal.record(Resume(6, 0.0))
        journal.step(6, 0.0, {"kl": 60.0})
        journal.step(6, 0.0, {"kl": 61.0, "loss": 1.0})
        journal.step(7, 0.0, {"kl": 70.0})
        stored = journal.stored()
        assert stored is not None
        assert list(surviving_rows(stored, {"kl", "loss"})) == [
            *((step, {"kl": float(step)}) for step in range(1, 6)),
            (6, {"kl": 60.0}),
            (6, {"loss": 1.0}),
            (7, {"kl": 70.0}),
        ]
    on_disk.close(1.0)


@pytest.mark.parametrize(
    "name",
    ["", "a/b", "..", ".hidden", "a\\b", "nul\0", "x" * 300, "new\nline", "half\ud800", "ü" * 150],
)
def test_a_run_that_cannot_name_a_folder_is_refused(name: str) -> None:
    """And a name is proposed that can."""
    with pytest.raises(ConfigError, match="cannot be the name of a folder; try") as refusal:
        run_folder("runs", name)
    proposed = str(refusal.value).rpartition("try ")[2].strip("'")
    assert run_folder("runs", proposed).parent == Path("runs")
