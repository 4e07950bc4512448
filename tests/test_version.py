"""The version: one number, wherever it is asked for."""

from __future__ import annotations

from importlib.metadata import version

import klarm


def test_the_package_and_its_metadata_agree() -> None:
    """pyproject.toml reads it from version.py."""
    assert klarm.__version__ == version("klarm")
