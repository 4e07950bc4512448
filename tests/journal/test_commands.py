"""The file of commands: whole lines from several writers, read from where one stopped."""

from __future__ import annotations

import threading
from pathlib import Path

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


def names(start: int = 0) -> list[str]:
    return [command.by for _, command in read_commands(HERE, start)]


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
    """Nobody has told the run anything."""
    assert names() == []


def test_damaged_and_unknown_lines_are_passed_over() -> None:
    """What was changed by hand, has no checksum, or comes from a later version."""
    for by in ("ada", "bob", "eve"):
        append_command(HERE, close(by))
    changed = FILE.read_bytes().replace(b'"by":"bob"', b'"by":"rob"')
    FILE.write_bytes(changed + b'{"type":"command","command":"close"}\n\xff\xfe\n')
    append_command(HERE, close("joe"))
    assert names() == ["ada", "eve", "joe"]


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
