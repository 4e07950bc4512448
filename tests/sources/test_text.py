"""The output of trainers in a console log."""

from __future__ import annotations

from pathlib import Path

import pytest

from klarm.metrics.numbers import to_number
from klarm.sources import LogRow, SourceError, read_log
from klarm.sources.row import StepColumn
from klarm.sources.text import Parser


def read(text: str) -> list[LogRow]:
    Path("train.log").write_text(text, encoding="utf-8")
    return [row for row in read_log(Path("train.log"), pytest.fail) if isinstance(row, LogRow)]


def test_dicts_with_text_for_numbers_are_read_as_trl_prints_them() -> None:
    """They may stand between progress bars and warnings. Without a step, rows are counted."""
    rows = read(
        "/usr/lib/x.py:3: UserWarning: {'a': 1}\n"
        "\r  0%|          | 0/100 [00:00<?, ?it/s]\r  1%|          | 1/100 [00:01<02:00]\n"
        "{'loss': '0.0002', 'grad_norm': '0.58', 'kl': '0', 'epoch': '0.01'}\n"
        "  2%|▏         | 2/100 [00:02<02:00]{'loss': 1e-05, 'kl': nan, 'epoch': 0.02}\n"
        "{'prompt': 'What is 2+2?', 'answer': 4}\n"
    )
    assert rows == [
        LogRow(None, {"loss": "0.0002", "grad_norm": "0.58", "kl": "0", "epoch": "0.01"}),
        LogRow(None, {"loss": "1e-05", "kl": "nan", "epoch": "0.02"}),
    ]


def test_the_console_lines_of_verl_are_read_with_their_step() -> None:
    """They may have Ray's prefix and colours, and numbers as numpy prints them."""
    rows = read(
        "\x1b[36m(TaskRunner pid=28143)\x1b[0m timing/step:1.25\n"
        "\x1b[36m(TaskRunner pid=28143)\x1b[0m step:9 - global_seqlen/min:183680"
        " - actor/kl_loss:np.float64(0.00068) - actor/ppo_kl:np.float64(-3.4e-05)"
        " - actor/grad_norm:inf - critic/score/mean:0.5 [repeated 2x across cluster]\n"
        "Training Progress:  10%|█   | 10/100 [01:29<9:59]step:10 - actor/kl_loss:np.float64(nan)\n"
    )
    assert [row.step for row in rows] == ["9", "10"]
    assert rows[0].metrics == {
        "global_seqlen/min": "183680",
        "actor/kl_loss": "0.00068",
        "actor/ppo_kl": "-3.4e-05",
        "actor/grad_norm": "inf",
        "critic/score/mean": "0.5",
    }
    assert rows[1].metrics == {"actor/kl_loss": "nan"}


def test_a_printed_configuration_is_not_a_row() -> None:
    """This holds even if a part of it is on a separate line."""
    parse = Parser(StepColumn())
    for line in (
        "(TaskRunner pid=4) {'actor': {'optim': {'lr': 1e-06, 'weight_decay': 0.01},",
        "(TaskRunner pid=4)            'optim': {'lr': 1e-06}}",
        "config = Config(optim={'lr': 1e-06})",
        "[{'kl': 0.1}, {'kl': 0.2}]",
    ):
        assert parse(line) is None


def test_in_a_log_with_steps_every_row_has_a_step() -> None:
    """Other dicts, such as a validation result, are not steps."""
    rows = read("{'step': 5, 'kl': 0.1}\n{'kl': 0.9}\n{\"reward\": 0.9}\n{'step': 6, 'kl': 0.2}\n")
    assert rows == [LogRow("5", {"kl": "0.1"}), LogRow("6", {"kl": "0.2"})]


@pytest.mark.parametrize(
    ("printed", "value"),
    [
        ("0", 0.0),
        ("-1.5e-07", -1.5e-07),
        ("'0.5'", 0.5),
        (".5", 0.5),
        ("inf", float("inf")),
        ("-Infinity", float("-inf")),
        ("np.float32(0.5)", 0.5),
        ("tensor(0.5000, device='cuda:0')", 0.5),
        ("array(0.5)", 0.5),
    ],
)
def test_a_number_is_read_in_any_printed_form(printed: str, value: float) -> None:
    """It may be bare, quoted or wrapped in its type."""
    (row,) = read(f"step metrics: {{'kl': {printed}, 'note': 'x'}}\n")
    assert to_number(row.metrics["kl"]) == value
    assert "note" not in row.metrics


@pytest.mark.parametrize("printed", ["None", "True", "'12abc'", "[1, 2]", "'none'", "1.2.3"])
def test_values_that_are_not_numbers_are_left_out(printed: str) -> None:
    """The rest of the row is read."""
    (row,) = read(f"{{'kl': {printed}, 'loss': 0.5}}\n")
    assert row.metrics == {"loss": "0.5"}


def test_a_step_with_a_total_is_a_step() -> None:
    """ms-swift prints the step as "12/300"."""
    (row,) = read("{'loss': 0.5, 'global_step/max_steps': '12/300'}\n")
    assert row.step == "12"


def test_json_lines_among_text_are_read() -> None:
    """A launcher may print both."""
    assert read('starting\n{"step": 1, "kl": 0.5}\ndone\n') == [LogRow(1, {"kl": 0.5})]


def test_text_without_rows_is_refused() -> None:
    """The message lists the formats that klarm reads."""
    with pytest.raises(SourceError, match="printed dicts, verl's console lines"):
        read("Epoch 1\nEpoch 2\n{'answer': 42}\n")
