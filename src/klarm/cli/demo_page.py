"""`klarm demo --page`: plays a recorded run live on the page."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from klarm import api
from klarm.cli.serve import page_server
from klarm.cli.stopping import Stopping
from klarm.config import load
from klarm.terminal import echo

_PORT = 8421
_SECONDS = 40.0  # of the run that is watched live
_CHECKPOINT_EVERY = 50

# One row of a recording.
_Rows = Sequence[Mapping[str, Any]]


def play_on_page(
    recording: str, recordings: Mapping[str, str], read: Callable[[str], _Rows]
) -> None:
    """Serve all recordings from a temporary folder, one of them as if it were training.

    Ctrl-C ends it. Neither klarm.yaml nor the environment is read, so nobody is notified.
    """
    stopping = Stopping()
    with tempfile.TemporaryDirectory(prefix="klarm-demo-") as folder:
        for name in recordings:
            if name != recording:
                _record(folder, name, read(name), lambda: None)
        server = _server(Path(folder))
        server.start()
        try:
            stopping.on_signals()
            echo(f"klarm demo: {recordings[recording]}")
            echo(f"Watch it at {server.url} (Ctrl-C ends it)")
            if server.page.missing:
                echo(server.page.missing)
            rows = read(recording)
            _record(folder, recording, rows, lambda: stopping.wait(_SECONDS / len(rows)), stopping)
            if not stopping.is_set():
                echo("The recording is over; the page stays until Ctrl-C.")
            while not stopping.is_set():
                stopping.wait(3600.0)
        finally:
            server.stop()


def _server(folder: Path) -> Any:
    """Return a server on the default port, or on any free one."""
    try:
        return page_server(folder, port=_PORT)
    except click.UsageError:
        return page_server(folder, port=0)


def _record(
    folder: str,
    name: str,
    rows: _Rows,
    pause: Callable[[], object],
    stopping: Stopping | None = None,
) -> None:
    """Log a recording as a training process would."""
    settings = load(overrides={"dir": folder, "console": False, "framework": "trl"}, recorded={})
    monitor = api.start(settings, f"demo-{name}", rank=0)
    for row in rows:
        if stopping is not None and stopping.is_set():
            break
        monitor.log({key: value for key, value in row.items() if key != "step"}, row["step"])
        if row["step"] % _CHECKPOINT_EVERY == 0:
            monitor.checkpoint(row["step"], f"checkpoints/{name}/step-{row['step']}")
        pause()
    monitor.finish()
