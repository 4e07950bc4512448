"""The environment holds the frameworks that klarm is tested in."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import pytest

HERE = Path(__file__).parent
LISTED = [
    line.partition("[")[0]
    for name in ("requirements.txt", "requirements-no-deps.txt")
    for line in (HERE / name).read_text().splitlines()
    if line and not line.startswith("#")
]


@pytest.mark.parametrize("name", LISTED)
def test_every_framework_is_installed(name: str) -> None:
    """A test that could not import its framework would otherwise be the first to know."""
    assert version(name)
