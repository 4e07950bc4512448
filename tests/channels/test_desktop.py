"""The desktop: what the platform has, else the terminal."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from klarm.channels.base import NotDelivered
from klarm.channels.desktop import DesktopChannel
from klarm.channels.message import Message


def install(folder: Path, program: str, exit_code: int = 0) -> Path:
    """Put a program on the path that writes down its arguments, one per line."""
    noted = folder / f"{program}.args"
    path = folder / program
    path.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {noted}\nexit {exit_code}\n')
    path.chmod(0o755)
    return noted


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is the only one where programs are looked for."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def test_notify_send_shows_it(programs: Path, message: Message) -> None:
    """Markup is escaped, and a text that begins with a dash is no option."""
    noted = install(programs, "notify-send")
    nasty = msgspec.structs.replace(message, summary="--help <b> $(reboot)")
    assert DesktopChannel().send(nasty, {}) == {}
    assert noted.read_text().splitlines() == [
        *("-a", "klarm", "-u", "critical", "--"),
        f"klarm: {message.title}",
        "--help &lt;b&gt; $(reboot)",
    ]


def test_osascript_gets_the_text_as_arguments(programs: Path, message: Message) -> None:
    """Not as a part of the script, where quotes would end a string."""
    noted = install(programs, "osascript")
    DesktopChannel().send(msgspec.structs.replace(message, summary='" & quit & "'), {})
    *script, title, text = noted.read_text().splitlines()
    assert (title, text) == (f"klarm: {message.title}", '" & quit & "')
    assert message.title not in script


def test_without_a_session_it_goes_to_the_terminal(
    programs: Path, message: Message, capsys: pytest.CaptureFixture[str]
) -> None:
    """With its bell: notify-send fails on a machine where nobody is logged in."""
    install(programs, "notify-send", exit_code=1)
    DesktopChannel().send(message, {})
    assert capsys.readouterr().err == f"\aklarm: {message.title}\n  {message.summary}\n"


def test_a_program_that_hangs_is_ended(
    programs: Path, message: Message, capsys: pytest.CaptureFixture[str]
) -> None:
    """After the timeout; the terminal is used instead."""
    hanging = programs / "notify-send"
    hanging.write_text("#!/bin/sh\nread forever < fifo\n")
    hanging.chmod(0o755)
    os.mkfifo("fifo")
    DesktopChannel(timeout_seconds=0.2).send(message, {})
    assert message.title in capsys.readouterr().err


def test_without_a_terminal_it_is_not_delivered(
    programs: Path, message: Message, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a service that closed stderr."""
    monkeypatch.setattr("sys.stderr", None)
    with pytest.raises(NotDelivered) as failed:
        DesktopChannel().send(message, {})
    assert failed.value.retry is False
