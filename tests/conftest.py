"""What every test stands on: a folder of its own, no settings, no swallowed failure."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

import klarm
from klarm import api, boundary
from klarm.channels.message import Context, Message, message_of
from klarm.detectors import CATALOGUE, installed_detectors
from klarm.plugins import plugins
from klarm.types import Event

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
    api._replace_current(None)


@pytest.fixture
def one_detector(clean_place: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave only kl_explosion on, for tests of what happens around a detector."""
    for kind in CATALOGUE:
        if kind.name != "kl_explosion":
            monkeypatch.setenv(f"KLARM_{kind.name.upper()}__ENABLED", "false")


@pytest.fixture
def site(clean_place: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have packages that a test puts into the folder `site` be found, and forgotten later."""
    monkeypatch.syspath_prepend(str(Path("site").absolute()))
    plugins.cache_clear()
    installed_detectors.cache_clear()
    yield
    sys.modules.pop("late_package", None)
    plugins.cache_clear()
    installed_detectors.cache_clear()


@pytest.fixture(autouse=True)
def failures_raise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the guard raise what it would keep from a training run."""
    monkeypatch.setattr(boundary, "raise_failures", True)


EVENT = Event(
    event="opened",
    incident=3,
    signal="kl",
    severity="critical",
    step=153,
    started=148,
    detectors=["kl_explosion", "kl_runaway"],
    peak=0.07796,
    reason="confirmed",
    message="KL 0.07796 is 9.24σ above its rolling baseline of 0.01306 ± 0.007.",
    recommendation="Act now: lower the learning rate or raise the KL penalty.",
    moved="grad_norm ×4 from 147, then kl ×6 from 148; reward flat",
    pattern="gradients first",
    cause="updates that are too large",
    remedy="Lower the learning rate or the gradient clip; look at the batch where it began.",
    checkpoint="/data/ckpt/step-140",
    rows=5,
)
CONTEXT = Context(
    run="grpo-7b",
    now=1_763_200_800.0,
    run_started=1_763_100_000.0,
    incident_started=1_763_200_080.0,
    values=[(step, 0.01 + 0.002 * (step % 5) + 0.012 * max(0, step - 148)) for step in range(154)],
    gpus=8,
    gpu_hour_price=2.5,
    url="https://example.org/runs/7b",
)


@pytest.fixture
def event() -> Event:
    return EVENT


@pytest.fixture
def context() -> Context:
    return CONTEXT


@pytest.fixture
def message() -> Message:
    """That a critical incident on KL has opened."""
    return message_of(EVENT, CONTEXT)
