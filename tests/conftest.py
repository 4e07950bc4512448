"""What every test stands on: a folder of its own, no settings, no swallowed failure."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

import klarm
from klarm import guard, session
from klarm.detectors import CATALOGUE

settings.register_profile("klarm", deadline=None, max_examples=150)
settings.load_profile("klarm")
# What a shell starts in the background is deaf to Ctrl-C, and so would be what tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def clean_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Work in an empty folder, without KLARM_ variables, and end the monitor afterwards."""
    monkeypatch.chdir(tmp_path)
    for variable in [name for name in os.environ if name.startswith("KLARM_")]:
        monkeypatch.delenv(variable)
    yield
    klarm.finish()
    session._replace_current(None)


@pytest.fixture
def one_detector(clean_place: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave only kl_explosion on, for tests of what happens around a detector."""
    for kind in CATALOGUE:
        if kind.name != "kl_explosion":
            monkeypatch.setenv(f"KLARM_{kind.name.upper()}__ENABLED", "false")


@pytest.fixture(autouse=True)
def failures_raise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the guard raise what it would keep from a training run."""
    monkeypatch.setattr(guard, "raise_failures", True)
