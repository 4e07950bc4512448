"""Logs that are read from a hidden copy. tests/cli covers stdin."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from klarm.sources import LogRow, SourceError, plain_log, read_log


def test_a_plain_log_is_not_copied() -> None:
    """This holds for a folder, too, and for a file that does not exist yet."""
    for log in (Path(), Path("missing.csv")):
        with plain_log(log, pytest.fail) as plain:
            assert plain.path == log


def test_a_copy_has_the_name_of_its_log_and_is_deleted_afterwards() -> None:
    """Messages and errors use the name of the log."""
    log, said = Path("log.jsonl.gz"), []
    log.write_bytes(gzip.compress(b'{"step": 1, "kl": 0.5}\nhello\n'))
    with plain_log(log, said.append) as plain:
        assert list(read_log(plain.path, plain.say)) == [LogRow(1, {"kl": 0.5})]
    assert said == ["log.jsonl.gz line 2 is not a JSON object; skipped: 'hello'"]
    assert not plain.path.parent.exists()
    log.write_bytes(gzip.compress(b""))
    with (
        pytest.raises(SourceError, match=r"^log\.jsonl\.gz holds no rows"),
        plain_log(log, pytest.fail) as plain,
    ):
        list(read_log(plain.path, plain.say))


def test_the_rows_before_the_damage_of_a_log_are_read() -> None:
    """Half a log is better than none."""
    lines = b"".join(b'{"step": %d, "kl": 0.5}\n' % step for step in range(100_000))
    packed, said = gzip.compress(lines), []
    Path("log.jsonl.gz").write_bytes(packed[: len(packed) // 2])
    with plain_log(Path("log.jsonl.gz"), said.append) as plain:
        rows = list(read_log(plain.path, lambda _: None))
    assert len(rows) > 10_000
    assert said == ["log.jsonl.gz is damaged or incomplete; only the part before that is read"]
