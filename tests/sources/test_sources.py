"""Logs as they lie around: CSV, JSON Lines, journals; with gaps, junk and torn ends."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import klarm
from klarm.journal import Resume, Started
from klarm.metrics import to_number
from klarm.sources import LogRow, SourceError, read_log


def read(name: str) -> tuple[list[LogRow | Resume | Started], list[str]]:
    said: list[str] = []
    return list(read_log(Path(name), said.append)), said


def test_csv_rows_are_text_by_column() -> None:
    """Empty cells, spaces, a byte-order mark and rows of the wrong length are taken as they are."""
    Path("log.csv").write_text(
        "\ufeffstep, kl,reward\n1,0.5,\n2,nan,1.5\n3,0.7\n4,0.8,2,surplus\n", encoding="utf-8"
    )
    rows, _ = read("log.csv")
    assert [row.step for row in rows if isinstance(row, LogRow)] == ["1", "2", "3", "4"]
    values = [to_number(row.metrics["kl"]) for row in rows if isinstance(row, LogRow)]
    assert values[0] == 0.5
    assert math.isnan(values[1] or 0.0)
    assert values[2:] == [0.7, 0.8]


def test_json_lines_as_python_writes_them_are_taken() -> None:
    """NaN and Infinity included, which strict JSON has not."""
    Path("log.jsonl").write_text('{"global_step": 3, "kl": NaN}\n\n{"kl": Infinity}\n')
    (first, second), said = read("log.jsonl")
    assert isinstance(first, LogRow)
    assert isinstance(second, LogRow)
    assert first.step == 3
    assert second.step is None
    assert second.metrics == {"kl": math.inf}
    assert said == []


def test_lines_that_are_no_objects_are_passed_over_and_said() -> None:
    """With their number; the rest is read."""
    Path("log.jsonl").write_text('{"kl": 1}\nEpoch 2 done\n[1]\n{"kl": 2}\n{"kl": 3')
    rows, said = read("log.jsonl")
    assert len(rows) == 2
    assert [line.partition(" is no JSON object")[0] for line in said] == [
        f"log.jsonl line {number}" for number in (2, 3, 5)
    ]


@pytest.mark.parametrize("content", [b"", b"hello\nworld\n", b"\x00\x01\x02", b"[[[[" * 5000])
def test_a_file_with_nothing_to_read_is_refused(content: bytes) -> None:
    """It says what could be read."""
    Path("log.txt").write_bytes(content)
    with pytest.raises(SourceError, match="klarm reads CSV"):
        read("log.txt")


@pytest.mark.parametrize("content", ["", "step,kl\n"])
def test_a_csv_file_without_rows_is_refused(content: str) -> None:
    """Nothing in it is not the same as nothing wrong with it."""
    Path("log.csv").write_text(content)
    with pytest.raises(SourceError, match=r"log\.csv holds no rows"):
        read("log.csv")


def test_a_file_of_another_kind_does_not_flood_the_terminal() -> None:
    """The first lines are shown, the rest is counted."""
    Path("log.txt").write_text("{'kl': 0.1}\n" * 500 + '{"kl": 0.1}\n')
    rows, said = read("log.txt")
    assert len(rows) == 1
    assert len(said) == 6
    assert said[-1] == "log.txt: 500 lines are no JSON objects; passed over"


def test_a_run_is_read_by_its_folder_with_its_resumes_and_settings() -> None:
    """A torn line in the middle is said and passed over."""
    klarm.init("a", console=False, kl_explosion={"sigma_multiplier": 5})
    for step in range(5):
        klarm.log({"kl": 0.1}, step)
    klarm.log({"kl": 0.1}, 3)
    klarm.finish()
    with Path("klarm_runs/a/journal.jsonl").open("a") as file:
        file.write('{"type":"step","st')
    rows, said = read("klarm_runs/a")
    started, *steps = rows
    assert isinstance(started, Started)
    assert started.config["kl_explosion"]["sigma_multiplier"] == 5.0
    assert [row.step for row in steps if not isinstance(row, Started)] == [0, 1, 2, 3, 4, 3, 3]
    assert isinstance(steps[5], Resume)
    assert said == ["klarm_runs/a/journal.jsonl line 10 is torn; passed over"]


def test_what_is_not_there_is_said_by_name() -> None:
    """A folder without a journal, too."""
    Path("empty").mkdir()
    with pytest.raises(SourceError, match=r"empty/journal\.jsonl does not exist"):
        read("empty")
