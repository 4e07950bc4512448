"""The journal: valid JSON, one line a step, read back as it was written."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klarm.journal.file import FileJournal, MemoryJournal, history, read_journal, run_folder
from klarm.journal.records import (
    Checkpoint,
    Finish,
    Resume,
    Started,
    Step,
    encode,
    spell_non_finite,
)
from klarm.settings.fields import ConfigError
from klarm.types import Alert


def silence(message: str) -> None:
    raise AssertionError(f"nothing should have been said, but: {message}")


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
        }
    ]


def test_every_record_is_read_back_as_it_was_written() -> None:
    """And tagged by its type."""
    records = [
        Started("a", 1.5, "0.1.0", "node", {"kl_explosion": {"min_std": 1e-4}}),
        Alert("kl_explosion", "critical", 3, "boom", {"kl": 9.0, "mode": "rolling"}, "stop"),
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


def test_an_alert_with_a_nan_is_still_json() -> None:
    """As its steps are."""
    alert = Alert("kl_explosion", "critical", 3, "kl is NaN", {"kl": math.nan}, "stop")
    assert json.loads(encode(alert))["metrics"] == {"kl": "NaN"}


@given(st.dictionaries(st.text(max_size=20), st.floats(), max_size=12), st.integers(0, 2**50))
def test_any_values_survive_the_way_to_disk_and_back(values: dict[str, float], step: int) -> None:
    """To the last bit."""
    path = Path("one.jsonl")
    path.write_bytes(encode(Step(step, 1.0, spell_non_finite(values))) + b"\n")
    (row,) = history(read_journal(path), set(values)).rows
    assert row[0] == step
    assert {name: repr(value) for name, value in row[1].items()} == {
        name: repr(value) for name, value in values.items()
    }


def test_a_torn_last_line_is_passed_over_and_never_glued_to_what_follows() -> None:
    """A killed process leaves half a line; the next one starts on a new line."""
    journal = FileJournal(Path("runs/a"), silence)
    journal.step(1, 1.0, {"kl": 0.1})
    journal.close(1.0)
    with journal.path.open("ab") as file:
        file.write(b'{"type":"step","step":2,"time":1.0,"metr')
    torn: list[int] = []
    assert [
        row[0] for row in history(read_journal(journal.path, torn.append), {"kl", "loss"}).rows
    ] == [1]
    assert torn == [2]

    resumed = FileJournal(Path("runs/a"), silence)
    resumed.step(2, 2.0, {"kl": 0.2})
    resumed.close(1.0)
    torn.clear()
    assert history(read_journal(resumed.path, torn.append), {"kl", "loss"}).rows == [
        (1, {"kl": 0.1}),
        (2, {"kl": 0.2}),
    ]
    assert torn == [2]


def test_types_and_fields_of_a_later_version_are_passed_over() -> None:
    """An older reader takes what it knows."""
    path = Path("journal.jsonl")
    path.write_text(
        '{"type":"step","step":1,"time":1.0,"metrics":{"kl":0.1},"mood":"good"}\n'
        '{"type":"horoscope","sign":"aries"}\n'
        "[1, 2]\n"
    )
    unreadable: list[int] = []
    assert history(read_journal(path, unreadable.append), {"kl", "loss"}).rows == [(1, {"kl": 0.1})]
    assert unreadable == []


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
        found = journal.history({"kl", "loss"})
        assert found is not None
        assert found.rows == [
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
