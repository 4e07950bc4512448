"""Runs klarm's commands in the process of the tests: one of their own takes most of a second."""

from __future__ import annotations

import io
import signal
import sys
import tempfile
from typing import NamedTuple

import loopback
import pytest

import klarm
from klarm import api, cli
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
    The monitor of the test, if it has one, and everything else that a process has only once are as
    before afterwards.
    """
    stdout, stderr = (io.TextIOWrapper(io.BytesIO(), encoding) for _ in range(2))
    monitor, api._current = api._current, None
    signals = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    with tempfile.TemporaryFile("w+") as stdin, pytest.MonkeyPatch.context() as patch:
        stdin.buffer.write(given)
        stdin.seek(0)
        patch.setattr(sys, "argv", ["klarm", *arguments])
        for name, stream in {"stdin": stdin, "stdout": stdout, "stderr": stderr}.items():
            patch.setattr(sys, name, stream)
        for name, value in variables.items():
            patch.setenv(name, value)
        if channels:
            patch.setenv("LOOPBACK", channels)
            patch.setattr(outgoing, "routes_of", loopback.routes_from_environment)
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
    return Done(code, *(_written(stream) for stream in (stdout, stderr)))


def _written(stream: io.TextIOWrapper) -> str:
    stream.flush()
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode(stream.encoding)
