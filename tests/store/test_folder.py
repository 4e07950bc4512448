"""A folder of runs as a store: folder.py, log_file.py and summaries.py, as base.py asks."""

from __future__ import annotations

import errno
import io
import os
import shutil
from pathlib import Path

import pytest

from klarm.store import FolderStore, LogFile, OffsetError, Store, id_of, shown

ROOT = Path("runs")


def write(run: str, data: bytes, name: str = "journal.jsonl") -> None:
    (ROOT / run).mkdir(parents=True, exist_ok=True)
    (ROOT / run / name).write_bytes(data)


def test_a_listing_says_what_has_changed_since_another() -> None:
    """New runs, grown logs, and runs that are gone."""
    write("a", b"1")
    write("team/b", b"1")
    store: Store = FolderStore(ROOT)
    first = store.runs()
    assert sorted(at.run for at in first.changed) == ["a", "team/b"]
    assert store.runs(first.cursor).changed == []
    write("a", b"12")
    write("team/b", b"x", "commands.jsonl")
    write("c", b"1")
    second = store.runs(first.cursor)
    assert sorted(at.run for at in second.changed) == ["a", "c", "team/b"]
    assert second.cursor["a"].logs["journal"].size == 2
    shutil.rmtree(ROOT / "team")
    third = store.runs(second.cursor)
    assert (third.changed, set(third.gone)) == ([], {"team/b"})
    assert set(store.runs(only=["a", "nope"]).cursor) == {"a"}


def test_a_run_that_cannot_be_looked_at_is_not_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only ENOENT and ENOTDIR say that; nobody shows an empty list because files ran out."""
    write("a", b"1")
    store = FolderStore(ROOT)
    known = store.runs().cursor

    def fail(*_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    for call in ("stat", "scandir"):
        with monkeypatch.context() as broken:
            broken.setattr(os, call, fail)
            with pytest.raises(OSError, match="Too many"):
                store.runs(known)
    assert store.runs(known).gone == set()
    (ROOT / "a" / "journal.jsonl").unlink()
    (ROOT / "a").rmdir()
    (ROOT / "a").write_text("a file in its place")
    assert store.runs(known).gone == {"a"}


def test_links_hidden_folders_and_folders_within_runs_are_left_out(tmp_path: Path) -> None:
    """Nothing outside of the folder is read."""
    write("a", b"1")
    write("a/inside", b"1")
    write(".hidden", b"1")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "journal.jsonl").write_bytes(b"1")
    (ROOT / "link").symlink_to(tmp_path / "elsewhere")
    assert [at.run for at in FolderStore(ROOT).runs().changed] == ["a"]
    assert [at.run for at in FolderStore(ROOT / "a").runs().changed] == [""]


def test_a_log_is_read_from_an_offset_and_one_that_is_not_there_is_empty() -> None:
    """A device in its place is empty, too: it may be endless."""
    write("a", b"0123456789")
    store = FolderStore(ROOT)
    assert store.read("a", "journal", 3, 4) == b"3456"
    assert store.read("a", "journal", 8, 100) == b"89"
    assert store.read("a", "commands", 0, 10) == b""
    assert store.read("nope", "journal", 0, 10) == b""
    (ROOT / "a" / "commands.jsonl").symlink_to("/dev/zero")
    assert store.read("a", "commands", 0, 10) == b""


def test_an_upload_goes_on_where_the_log_ends_and_nowhere_else() -> None:
    """So it can be repeated, and a log that was cut off is noticed."""
    write("a", b"one\n")
    store = FolderStore(ROOT)
    assert store.append("a", "commands", b"first\n") == 6
    assert store.append("a", "commands", b"second\n", at=6) == 13
    with pytest.raises(OffsetError) as wrong:
        store.append("a", "commands", b"second\n", at=6)
    assert wrong.value.end == 13
    assert store.read("a", "commands", 0, 99) == b"first\nsecond\n"


def test_only_one_process_has_a_role() -> None:
    """To record and to deliver are two."""
    write("a", b"1\n")
    store = FolderStore(ROOT)
    held = store.claim("a", "record")
    assert held is not None
    assert not store.is_free("a", "record")
    assert store.claim("a", "record") is None
    other = store.claim("a", "deliver")
    assert other is not None
    held.release()
    other.release()
    assert store.is_free("a", "record")


def test_a_log_is_a_file_to_read() -> None:
    """From the beginning, from the end, and as it grows."""
    write("a", b"0123456789")
    file = LogFile(FolderStore(ROOT), "a")
    assert file.read(4) == b"0123"
    assert file.read() == b"456789"
    assert file.seek(0, io.SEEK_END) == 10
    write("a", b"0123456789ab")
    assert file.read(5) == b"ab"
    file.seek(2)
    file.seek(3, io.SEEK_CUR)
    assert (file.tell(), file.read(1)) == (5, b"5")
    assert (file.readable(), file.seekable()) == (True, True)
    assert LogFile(FolderStore(ROOT), "nope").seek(0, io.SEEK_END) == 0


def test_the_name_of_a_folder_is_no_address() -> None:
    """A plain one is its own id; others are hashed, and shown as far as they are text."""
    assert id_of("grpo-7b") == "grpo-7b"
    assert id_of(os.fsdecode(b"caf\xe9")).startswith("~")
    assert shown(os.fsdecode(b"caf\xe9")) == "caf�"
