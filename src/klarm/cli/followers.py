"""The logs that `klarm serve` follows, each in its own `klarm follow` process."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of Linux
_END_SECONDS = 10.0


@contextlib.contextmanager
def following(logs: Iterable[Path], folder: Path) -> Iterator[None]:
    """Follow logs and record their runs in a folder, until the block ends.

    A process has only one monitor, so each log has its own process, which reports problems itself.
    """
    environment = {**os.environ, "KLARM_DIR": str(folder.absolute())}
    processes = [
        subprocess.Popen(
            # Two progress bars in one line would overwrite each other.
            [sys.executable, "-m", "klarm", "follow", "--no-progress", str(log)],
            env=environment,
            stdin=subprocess.DEVNULL,
            # This is safe because there are no threads yet.
            preexec_fn=_end_with_parent if sys.platform == "linux" else None,  # noqa: PLW1509
        )
        for log in logs
    ]
    try:
        yield
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_END_SECONDS)


def _end_with_parent() -> None:
    """Ask the kernel to end this process when its parent dies, even if it is killed."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, signal.SIGTERM)
