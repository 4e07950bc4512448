"""What tests in real frameworks stand on besides tests/conftest.py: no network, few threads."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from klarm import boundary
from klarm.detectors import KLExplosionDetector

# Before any framework is imported, and for the processes that tests start.
os.environ.update(
    HF_HUB_OFFLINE="1",
    HF_DATASETS_OFFLINE="1",
    OMP_NUM_THREADS="1",
    RAY_USAGE_STATS_ENABLED="0",
    TOKENIZERS_PARALLELISM="false",
    WANDB_MODE="offline",
)


def pytest_configure(config: pytest.Config) -> None:
    """Let frameworks warn as they like: their warnings are not klarm's to mend."""
    config.addinivalue_line("filterwarnings", "ignore")


@pytest.fixture(scope="session", autouse=True)
def failures_raise_in_shared_runs() -> Iterator[None]:
    """As tests/conftest.py has it for one test: runs that several tests look at begin earlier."""
    boundary.raise_failures = True
    yield
    boundary.raise_failures = False


@pytest.fixture(scope="session")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny model with which all runs in TRL begin."""
    import tiny_trl

    return tiny_trl.make_reference(tmp_path_factory.mktemp("model") / "reference")


@pytest.fixture
def broken_detector(failures_raise: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a detector raise, with the guard as it is in production."""

    def broken(*_: object) -> None:
        raise RuntimeError("broken detector")

    monkeypatch.setattr(boundary, "raise_failures", False)
    monkeypatch.setattr(KLExplosionDetector, "_observe", broken)
