"""What a person sees in the terminal: a line for news, a panel for an incident. On stderr."""

from __future__ import annotations

import contextlib
import select
import sys
from typing import TYPE_CHECKING

from klarm.incidents import event_panel, event_text
from klarm.types import Alert, Event

if TYPE_CHECKING:
    from rich.console import RenderableType

# Takes away a progress bar that stands on the line; it draws itself again.
_CLEAR_LINE = "\r\x1b[K"


class Console:
    """Writes to stderr; a terminal gets panels, anything else gets plain lines.

    A stderr that is closed, broken or that nobody reads is no reason to disturb a run: what cannot
    be shown at once is not shown.
    """

    def __init__(self, enabled: bool = True, *, alerts: bool = False) -> None:
        self.enabled = enabled
        self._alerts = enabled and alerts
        self._terminal = enabled and _is_terminal()
        if self._terminal:
            import rich.console
            import rich.panel  # noqa: F401  # loaded now: the first incident must not wait for it

    def say(self, message: str) -> None:
        """Print one line of news."""
        if self.enabled:
            self._print(f"klarm: {message}")

    def alert(self, alert: Alert) -> None:
        """Show a single alert in one line, if single alerts are wanted here."""
        if self._alerts:
            self._print(
                f"klarm {alert.severity.upper()} at step {alert.step}, {alert.detector}: "
                f"{alert.message}"
            )

    def event(self, event: Event) -> None:
        """Show that an incident opened, got worse or is over."""
        if not self.enabled:
            return
        if self._terminal and event.event != "resolved":
            self._print("", end="")
            _print_panel(event_panel(event))
        else:
            self._print(event_text(event))

    def _print(self, text: str, end: str = "\n") -> None:
        text = f"{_CLEAR_LINE if self._terminal else ''}{text}{end}"
        with contextlib.suppress(Exception):  # stderr may be anybody's object
            if not _takes_more():
                return
            try:
                sys.stderr.write(text)
            except UnicodeEncodeError:  # a terminal that knows no σ
                sys.stderr.write(text.encode("ascii", "replace").decode())
            sys.stderr.flush()


def _is_terminal() -> bool:
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):  # no stderr at all, or a closed one
        return False


def _print_panel(panel: RenderableType) -> None:
    from rich.console import Console as RichConsole

    with contextlib.suppress(Exception):  # as above
        if _takes_more():
            RichConsole(stderr=True).print(panel)


def _takes_more() -> bool:
    """Return whether stderr takes a message now: a pipe that nobody reads fills up and blocks."""
    try:
        return bool(select.select([], [sys.stderr.fileno()], [], 0)[1])
    except (AttributeError, OSError, ValueError):  # it has no descriptor to ask
        return True
