"""Runs klarm's commands in the process of the tests: one of their own takes most of a second."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import signal
import struct
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple, TextIO

import loopback
import pytest

import klarm
from klarm import api, cli, nonblocking
from klarm.delivery import outgoing


class Done(NamedTuple):
    """What a command has printed, and its exit code."""

    returncode: int
    stdout: str
    stderr: str


def run_klarm(
    *arguments: str,
    given: bytes = b"",
    channels: str = "",
    encoding: str = "utf-8",
    **variables: str,
) -> Done:
    """Run a command as a shell does: with some bytes on stdin, and with environment variables.

    `channels` are to a server of the tests, `name=url,name=url`; without them, klarm.yaml counts.
    """
    stdout, stderr = (io.TextIOWrapper(io.BytesIO(), encoding) for _ in range(2))
    with _stdin(given) as stdin, pytest.MonkeyPatch.context() as patch:
        if channels:
            patch.setenv("LOOPBACK", channels)
            patch.setattr(outgoing, "routes_of", loopback.routes_from_environment)
        code = _call(arguments, stdin, stdout, stderr, variables)
    return Done(code, _written(stdout), _written(stderr))


def run_on_terminal(
    *arguments: str,
    given: bytes = b"",
    columns: int = 80,
    lines: int = 24,
    encoding: str = "utf-8",
    **variables: str,
) -> tuple[int, str]:
    """Run a command on a pseudo-terminal; return its exit code and what it shows there.

    Its stdin is no terminal.
    """
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    size = {"TERM": "xterm-256color", "COLUMNS": str(columns), "LINES": str(lines)}
    shown = bytearray()

    def collect() -> None:
        while True:
            try:
                shown.extend(os.read(master, 65_536))
            except OSError:  # the terminal's other end is closed
                return

    reader = threading.Thread(target=collect)
    reader.start()
    try:
        with os.fdopen(slave, "w", buffering=1, encoding=encoding) as terminal:
            with _stdin(given) as stdin:
                code = _call(arguments, stdin, terminal, terminal, {**size, **variables})
            until = time.monotonic() + 30
            while nonblocking._thread.is_busy and time.monotonic() < until:
                time.sleep(0.01)
    finally:
        reader.join()
        os.close(master)
    return code, shown.decode().replace("\r\n", "\n")


@contextmanager
def _stdin(given: bytes) -> Iterator[TextIO]:
    with tempfile.TemporaryFile("w+") as stdin:
        stdin.buffer.write(given)
        stdin.seek(0)
        yield stdin


def _call(
    arguments: tuple[str, ...],
    stdin: TextIO,
    stdout: TextIO,
    stderr: TextIO,
    variables: dict[str, str],
) -> int:
    """Run a command and return its exit code.

    The monitor of the test, if it has one, and everything else that a process has only once are as
    before afterwards.
    """
    monitor, api._current = api._current, None
    signals = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["klarm", *arguments])
        for name, stream in {"stdin": stdin, "stdout": stdout, "stderr": stderr}.items():
            patch.setattr(sys, name, stream)
        for name, value in variables.items():
            patch.setenv(name, value)
        try:
            with pytest.raises(SystemExit) as ended:
                cli.main()
            klarm.finish()
        finally:
            api._replace_current(None)
            api._current = monitor
            for number, handler in signals.items():
                signal.signal(number, handler)
    code = ended.value.code
    assert isinstance(code, int)
    return code


def _written(stream: io.TextIOWrapper) -> str:
    stream.flush()
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode(stream.encoding)
