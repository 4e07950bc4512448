"""The web page of all runs: an index of journals, an API over it, and the built page."""

from __future__ import annotations

from klarm.server.serving import CannotServeError, PageServer

__all__ = ["CannotServeError", "PageServer"]
