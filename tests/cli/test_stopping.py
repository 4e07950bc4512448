"""Signals stop a command cleanly at any point."""

from __future__ import annotations

import signal
import sys
from types import FrameType

from klarm.cli.stopping import Stopping


def test_a_signal_ends_the_wait() -> None:
    """It may interrupt any line that Python runs during the wait; each is tried."""
    line = 0
    while True:
        stopping, here = Stopping(), 0

        def trace(frame: FrameType, event: str, _: object) -> object:
            nonlocal here
            if event == "line":
                here += 1
                if here == line:  # noqa: B023
                    signal.raise_signal(signal.SIGINT)
            return trace

        before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
        stopping.on_signals()
        tracing = sys.gettrace()
        sys.settrace(trace)
        try:
            stopping.wait(0.0)
        finally:
            sys.settrace(tracing)
            signal.signal(signal.SIGINT, before[0])
            signal.signal(signal.SIGTERM, before[1])
        assert stopping.is_set() == (0 < line <= here)
        if line > here:
            return
        line += 1


def test_waiting_returns_immediately_once_stopped() -> None:
    """This holds even for a wait of an hour."""
    stopping = Stopping()
    stopping.set()
    stopping.wait(3600.0)
    assert stopping.is_set()
