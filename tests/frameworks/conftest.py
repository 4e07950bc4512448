"""What tests in real frameworks stand on besides tests/conftest.py: no network, few threads."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from klarm import boundary

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
