"""The file of commands: whole lines from several writers, read from where one stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from klarm.journal.checksum import sealed
from klarm.journal.commands import (
    FILE_NAME,
    append_command,
    append_lines,
    new_key,
    read_commands,
    read_lines,
)
from klarm.types import Command

HERE = Path()
FILE = Path(FILE_NAME)


def close(by: str) -> Command:
    return Command(command="close", key=by, time=1.5, by=by, incident="kaaaaaaa")


def names(start: int = 0, on_damage: Callable[[int], None] | None = None) -> list[str]:
    return [command.by for _, command in read_commands(HERE, start, on_damage)]


def test_a_command_is_read_as_it_was_written() -> None:
    """With every field."""
    silence = Command(
        command="silence",
        key="1",
        time=2.5,
        by="ada",
        signal="kl",
        until_step=9,
        even_critical=True,
    )
    append_command(HERE, silence)
    assert [command for _, command in read_commands(HERE)] == [silence]


def test_reading_goes_on_where_it_stopped() -> None:
    """At the offset that came with the last command."""
    append_command(HERE, close("ada"))
    ((end, _),) = read_commands(HERE)
    assert end == FILE.stat().st_size
    append_command(HERE, close("bob"))
    assert names(end) == ["bob"]


def test_without_a_file_there_are_no_commands() -> None:
    """Nobody has given the run a command."""
    assert names() == []


def test_damaged_lines_are_skipped_and_reported() -> None:
    """What was changed by hand, or has no checksum, with where it is; an empty line is nothing."""
    for by in ("ada", "bob", "eve"):
        append_command(HERE, close(by))
    changed = FILE.read_bytes().replace(b'"by":"bob"', b'"by":"rob"')
    FILE.write_bytes(changed + b'\n{"type":"command","command":"close"}\n\xff\xfe\n')
    append_command(HERE, close("joe"))
    damaged: list[int] = []
    assert names(on_damage=damaged.append) == ["ada", "eve", "joe"]
    assert damaged == [len(changed) // 3, len(changed) + 1, len(changed) + 38]


def test_a_command_of_a_later_version_is_no_damage() -> None:
    """It is skipped without a word."""
    append_lines(FILE, sealed(b'{"type":"command","command":"dance","key":"1"}'))
    append_command(HERE, close("ada"))
    assert names(on_damage=lambda offset: pytest.fail(str(offset))) == ["ada"]


def test_a_line_that_is_being_written_waits_for_its_end() -> None:
    """It is read once it is whole."""
    append_command(HERE, close("ada"))
    whole = FILE.read_bytes()
    FILE.write_bytes(whole[:-5])
    assert names() == []
    FILE.write_bytes(whole)
    assert names() == ["ada"]


def test_nothing_is_glued_to_a_line_that_a_crash_has_torn() -> None:
    """The next command is whole."""
    append_command(HERE, close("ada"))
    FILE.write_bytes(FILE.read_bytes()[:-5])
    append_command(HERE, close("bob"))
    assert names() == ["bob"]


def test_several_writers_at_once_lose_no_line() -> None:
    """Each waits for its turn."""
    path = Path("lines")

    def write(name: str) -> None:
        for _ in range(50):
            append_lines(path, f"{name * 200}\n".encode())

    threads = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = sorted(line for _, line in read_lines(path))
    assert found == sorted([f"{name * 200}\n".encode() for name in "abcd"] * 50)


def test_keys_differ() -> None:
    """By them a command is applied once."""
    assert len({new_key() for _ in range(1000)}) == 1000
