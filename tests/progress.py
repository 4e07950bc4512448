"""One line of progress with the time left, instead of a dot per test; in the end, what is left out.

It runs where the results come together: in the one process, or in the one that pytest-xdist's
workers report to.
"""

from __future__ import annotations

import sys
from time import monotonic

import pytest

_SECONDS_BETWEEN_LINES = 10.0  # where lines cannot be overwritten, as in a log of CI
_MIN_DONE = 50  # tests, before the time left is worth saying


class Progress:
    """Counts finished tests and shows how long the others take at the same rate."""

    def __init__(self) -> None:
        self.done = self.total = 0
        self.began = self.said = monotonic()
        self.overwrites = sys.stdout.isatty()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Note how many tests there are; without workers, pytest says it here."""
        self._start(len(session.items))

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        """Note how many tests there are, from the workers."""
        self._start(len(ids))

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """Print no dot for what passed or was skipped."""
        if report.when == "call" and report.passed:
            return "passed", "", ""
        return ("skipped", "", "") if report.skipped else None

    def pytest_runtest_logfinish(self) -> None:
        """Show the progress, if it is time to."""
        self.done += 1
        now = monotonic()
        if now - self.said > (0.5 if self.overwrites else _SECONDS_BETWEEN_LINES):
            self.said = now
            self._show(now - self.began)

    def pytest_sessionfinish(self) -> None:
        """Leave the line to what follows."""
        if self.overwrites:
            sys.stdout.write("\r\033[K")

    def pytest_unconfigure(self, config: pytest.Config) -> None:
        """Say last what was tested, and what was left out."""
        if self.done and config.getoption("closing_line"):
            print(config.getoption("closing_line"))

    def _start(self, total: int) -> None:
        if not self.total:
            self.total, self.began = total, monotonic()

    def _show(self, spent: float) -> None:
        text = f"{self.done} of {self.total} tests, {spent:.0f} s"
        if self.done >= _MIN_DONE:
            text += f", about {spent * (self.total - self.done) / self.done:.0f} s left"
        sys.stdout.write(f"\r\033[K{text}" if self.overwrites else f"{text}\n")
        sys.stdout.flush()
