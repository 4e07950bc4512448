"""Logs as people have them: CSV, JSON, JSON Lines and journals, some of them damaged.

Covers csv.py, document.py, formats.py, journal.py, jsonl.py, lines.py and row.py.
"""

from __future__ import annotations

import json
import math
import tracemalloc
from pathlib import Path

import pytest

import klarm
from klarm.journal.records import Resume, Started
from klarm.metrics.numbers import to_number
from klarm.sources import LogRow, SourceError, read_log


def read(name: str) -> tuple[list[LogRow | Resume | Started], list[str]]:
    said: list[str] = []
    return list(read_log(Path(name), said.append)), said


def test_csv_rows_are_text_by_column() -> None:
    """Empty cells, spaces, a byte-order mark and rows of the wrong length are accepted."""
    Path("log.csv").write_text(
        "\ufeffstep, kl,reward\n1,0.5,\n2,nan,1.5\n3,0.7\n4,0.8,2,surplus\n", encoding="utf-8"
    )
    rows, _ = read("log.csv")
    assert [row.step for row in rows if isinstance(row, LogRow)] == ["1", "2", "3", "4"]
    values = [to_number(row.metrics["kl"]) for row in rows if isinstance(row, LogRow)]
    assert values[0] == 0.5
    assert math.isnan(values[1] or 0.0)
    assert values[2:] == [0.7, 0.8]


def test_json_lines_as_python_writes_them_are_read() -> None:
    """This includes NaN and Infinity, which strict JSON does not allow."""
    Path("log.jsonl").write_text('{"global_step": 3, "kl": NaN}\n\n{"kl": Infinity}\n')
    (first, second), said = read("log.jsonl")
    assert isinstance(first, LogRow)
    assert isinstance(second, LogRow)
    assert first.step == 3
    assert second.step is None
    assert second.metrics == {"kl": math.inf}
    assert said == []


def test_lines_that_are_not_objects_are_skipped_and_reported() -> None:
    """The report has their line numbers; the rest is read."""
    Path("log.jsonl").write_text('{"kl": 1}\nEpoch 2 done\n[1]\n{"kl": 2}\n{"kl": 3')
    rows, said = read("log.jsonl")
    assert len(rows) == 2
    assert [line.partition(" is not a JSON object")[0] for line in said] == [
        f"log.jsonl line {number}" for number in (2, 3, 5)
    ]


@pytest.mark.parametrize("content", [b"", b"hello\nworld\n", b"\x00\x01\x02", b"[[[[" * 5000])
def test_a_file_with_nothing_to_read_is_refused(content: bytes) -> None:
    """The message lists the formats that klarm reads."""
    Path("log.txt").write_bytes(content)
    with pytest.raises(SourceError, match="klarm reads CSV"):
        read("log.txt")


@pytest.mark.parametrize("content", ["", "step,kl\n"])
def test_a_csv_file_without_rows_is_refused(content: str) -> None:
    """An empty log does not mean that nothing is wrong."""
    Path("log.csv").write_text(content)
    with pytest.raises(SourceError, match=r"log\.csv holds no rows"):
        read("log.csv")


def test_a_file_of_another_kind_does_not_flood_the_terminal() -> None:
    """The first lines are shown, the rest is counted."""
    Path("log.jsonl").write_text("{'kl': 0.1}\n" * 500 + '{"kl": 0.1}\n')
    rows, said = read("log.jsonl")
    assert len(rows) == 1
    assert len(said) == 6
    assert said[-1] == "log.jsonl: 500 lines could not be read and were skipped"


def test_a_run_is_read_by_its_folder_with_its_resumes_and_settings() -> None:
    """A torn line in the middle is reported and skipped."""
    klarm.init("a", console=False, kl_explosion={"sigma_multiplier": 5})
    for step in range(5):
        klarm.log({"kl": 0.1}, step)
    klarm.log({"kl": 0.2}, 3)
    klarm.finish()
    with Path("klarm_runs/a/journal.jsonl").open("a") as file:
        file.write('{"type":"step","st')
    rows, said = read("klarm_runs/a")
    started, *steps = rows
    assert isinstance(started, Started)
    assert started.config["kl_explosion"]["sigma_multiplier"] == 5.0
    numbers = [row.step for row in steps if isinstance(row, LogRow | Resume)]
    assert numbers == [0, 1, 2, 3, 4, 3, 3]
    assert isinstance(steps[5], Resume)
    assert said == ["klarm_runs/a/journal.jsonl line 10 is incomplete and ignored"]


def test_a_missing_log_is_reported_by_name() -> None:
    """This includes a folder without a journal."""
    Path("empty").mkdir()
    with pytest.raises(SourceError, match=r"empty holds neither a journal\.jsonl nor Tensor"):
        read("empty")
    with pytest.raises(SourceError, match=r"missing\.csv does not exist"):
        read("missing.csv")


def test_windows_line_ends_and_a_byte_order_mark_are_removed() -> None:
    """This holds for all formats that are read by line."""
    Path("log.csv").write_bytes(b"\xef\xbb\xbfstep,kl\r\n1,0.5\r\n\r\n2,0.6\r\n")
    Path("log.jsonl").write_bytes(b'\xef\xbb\xbf{"step": "1", "kl": "0.5"}\r\n')
    Path("log.txt").write_bytes(b"\xef\xbb\xbf{'step': '1', 'kl': '0.5'}\r\n")
    assert read("log.csv")[0] == [LogRow("1", {"kl": "0.5"}), LogRow("2", {"kl": "0.6"})]
    assert read("log.jsonl") == ([LogRow("1", {"kl": "0.5"})], [])
    assert read("log.txt") == ([LogRow("1", {"kl": "0.5"})], [])


def test_a_cell_with_line_breaks_is_one_cell() -> None:
    """Spreadsheets write such cells."""
    Path("log.csv").write_text('step,note,kl\n1,"two\nlines, ""so""",0.5\n2,,0.6\n')
    assert [row.metrics["kl"] for row in read("log.csv")[0] if isinstance(row, LogRow)] == [
        "0.5",
        "0.6",
    ]


@pytest.mark.parametrize("name", ["log.txt", "log.jsonl", "log.csv", "log"])
def test_a_huge_line_is_never_kept_in_memory(name: str) -> None:
    """The lines after it are read."""
    rows = {"log.csv": "step,kl\n{}\n1,0.5\n"}.get(name, '{}\n{{"step": "1", "kl": "0.5"}}\n')
    before, _, after = rows.replace("{{", "{").replace("}}", "}").partition("{}")
    with Path(name).open("wb") as file:
        file.write(before.encode())
        for _ in range(100):
            file.write(b"x" * 2**20)
        file.write(after.encode())
    tracemalloc.start()
    try:
        found, said = read(name)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found == [LogRow("1", {"kl": "0.5"})]
    assert "is longer than 16 MiB; skipped" in said[0]
    assert peak < 40 * 2**20


def test_the_nested_metrics_of_verls_file_logger_are_read() -> None:
    """They are unpacked; a metric that is named "data" stays a metric."""
    Path("log.jsonl").write_text(
        '{"step":1,"data":{"actor/kl_loss":0.5,"training/global_step":1}}\n'
        '{"step":2,"data":{"nested":0.5},"kl":0.1}\n'
    )
    first, second = read("log.jsonl")[0]
    assert first == LogRow(1, {"actor/kl_loss": 0.5, "training/global_step": 1})
    assert second == LogRow(2, {"data": {"nested": 0.5}, "kl": 0.1})


def test_a_trainer_state_is_read_by_its_file_or_its_checkpoint() -> None:
    """It may contain null and Infinity for values that JSON cannot represent."""
    Path("checkpoint-2").mkdir()
    Path("checkpoint-2/trainer_state.json").write_text(
        """{
  "epoch": 1.0,
  "global_step": 2,
  "log_history": [
    {"epoch": 0.5, "kl": 0.25, "step": 1},
    {"epoch": 1.0, "grad_norm": Infinity, "kl": null, "step": 2},
    {"epoch": 1.0, "step": 2, "train_loss": 0.1}
  ],
  "max_steps": 2
}"""
    )
    rows, said = read("checkpoint-2/trainer_state.json")
    assert rows == read("checkpoint-2")[0]
    assert [row.step for row in rows if isinstance(row, LogRow)] == [1, 2, 2]
    assert rows[1] == LogRow(2, {"epoch": 1.0, "grad_norm": math.inf, "kl": None})
    assert said == []


def test_a_trainer_state_without_history_is_refused() -> None:
    """It was saved before anything was logged."""
    Path("trainer_state.json").write_text('{"global_step": 0, "log_history": []}')
    with pytest.raises(SourceError, match="its log_history is empty"):
        read("trainer_state.json")


@pytest.mark.parametrize("indent", [None, 2])
def test_rows_keyed_by_step_come_in_the_order_of_their_steps(indent: int | None) -> None:
    """Step 10 comes after step 2."""
    rows = {str(step): {"kl": step / 10} for step in (1, 10, 2)}
    Path("log.json").write_text(json.dumps(rows, indent=indent))
    assert read("log.json")[0] == [LogRow(step, {"kl": step / 10}) for step in (1, 2, 10)]


def test_a_list_of_rows_is_a_log() -> None:
    """Scripts save their history in this form."""
    Path("history").write_text('[{"step": 3, "kl": 0.1}, {"step": 4, "kl": 0.2}]')
    assert read("history")[0] == [LogRow(3, {"kl": 0.1}), LogRow(4, {"kl": 0.2})]


def test_json_lines_may_be_named_json() -> None:
    """The file may have one row or many."""
    Path("log.json").write_text('{"step": 3, "kl": 0.1}\n')
    assert read("log.json")[0] == [LogRow(3, {"kl": 0.1})]
    Path("log.json").write_text('{"step": 3, "kl": 0.1}\n{"step": 4, "kl": 0.1}\n')
    assert len(read("log.json")[0]) == 2
