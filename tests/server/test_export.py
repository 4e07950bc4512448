"""Exports: a row per step that counts."""

from __future__ import annotations

import csv
import io
import math
import sys
from collections.abc import Iterator

import pytest
from serving_runs import RUNS, Client, served

from klarm.journal import FileJournal, Started


@pytest.fixture
def client() -> Iterator[Client]:
    """Serve a run whose steps come in several dicts, with a metric that looks like a formula."""
    journal = FileJournal(RUNS / "a", print)
    journal.record(Started("a", 1.0, "0.2.0", "node", {}))
    for step in range(1, 1201):
        journal.step(step, float(step), {"kl": step / 10})
        journal.step(step, float(step), {"=1+1": 2.0, "kl": 7.0})
    journal.step(1201, 1201.0, {"kl": math.nan})
    journal.close(5.0)
    with served() as client:
        yield client


def test_csv_has_a_row_per_step(client: Client) -> None:
    """The first value of a metric counts; a name is no formula; what was not logged is empty."""
    answer = client.ask("/api/v1/runs/a/export")
    assert answer.headers["Content-Disposition"] == 'attachment; filename="a.csv"'
    rows = list(csv.reader(io.StringIO(answer.body.decode())))
    assert rows[0] == ["step", "time", "kl", "'=1+1"]
    assert rows[1] == ["1", "1.0", "0.1", "2.0"]
    assert len(rows) == 1202
    assert rows[-1] == ["1201", "1201.0", "nan", ""]


def test_a_part_of_it_can_be_had(client: Client) -> None:
    """Some metrics, some steps."""
    answer = client.ask("/api/v1/runs/a/export?metrics=kl&from=1100&to=1101")
    assert answer.body == b"step,time,kl\n1100,1100.0,110.0\n1101,1101.0,110.1\n"
    assert client.ask("/api/v1/runs/a/export?metrics=nope").status == 404


def test_without_pyarrow_it_says_what_to_install(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a 501."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    answer = client.ask("/api/v1/runs/a/export?format=parquet")
    assert answer.status == 501
    assert "pip install pyarrow" in answer.json["error"]["message"]
