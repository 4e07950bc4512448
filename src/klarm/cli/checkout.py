"""Finds the checkout that klarm runs from, because the page is built and installed there."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

_ROOT = Path(__file__).parents[3]


def is_checkout() -> bool:
    """Return whether klarm runs from a checkout: only that has the source of the page."""
    return (_ROOT / "web" / "package.json").is_file()


def how_to_install_the_page() -> str:
    """Return what to type to get the page and the packages that it needs."""
    if not is_checkout():
        return "pip install 'klarm[server]'"
    # Not only pip: without an active environment, that is another Python's.
    python = Path(sys.executable)
    if python.is_relative_to(_ROOT):
        python = python.relative_to(_ROOT)
    install = f"{shlex.quote(str(python))} -m pip install -e '.[server]'"
    return f"in the checkout of klarm, run make page, then {install}"
