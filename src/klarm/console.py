"""What a person sees in the terminal: one line for news, a panel for an alert. On stderr."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

from klarm.types import Alert

if TYPE_CHECKING:
    from rich.console import RenderableType

COLOURS = {"warning": "yellow", "critical": "red"}


class Console:
    """Writes to stderr; a terminal gets panels, anything else gets plain lines.

    A stderr that is closed or full is no reason to disturb a run: nothing here raises for it.
    """

    def __init__(self, enabled: bool = True) -> None:
        self.enabled = enabled
        self._rich = enabled and _is_terminal()
        if self._rich:
            import rich.console
            import rich.panel  # noqa: F401  # loaded now: the first alert must not wait for it

    def say(self, message: str) -> None:
        """Print one line of news."""
        if self.enabled:
            _print(f"klarm: {message}")

    def alert(self, alert: Alert) -> None:
        """Show an alert."""
        if not self.enabled:
            return
        if self._rich:
            _print_rich(alert_panel(alert))
        else:
            _print(alert_text(alert))


def alert_text(alert: Alert) -> str:
    """Return an alert as plain lines."""
    return (
        f"klarm {alert.severity.upper()} at step {alert.step}, {alert.detector}: {alert.message}\n"
        f"  -> {alert.recommendation}"
    )


def alert_panel(alert: Alert) -> RenderableType:
    """Return an alert as a rich panel."""
    from rich.panel import Panel
    from rich.text import Text

    colour = COLOURS[alert.severity]
    body = Text.assemble((alert.message, "bold"), "\n", ("→ ", colour), alert.recommendation)
    title = Text(f"klarm {alert.severity}: {alert.detector}, step {alert.step}", f"bold {colour}")
    return Panel(body, title=title, title_align="left", border_style=colour, width=None)


def _is_terminal() -> bool:
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):  # no stderr at all, or a closed one
        return False


def _print(text: str) -> None:
    with contextlib.suppress(AttributeError, OSError, ValueError):
        try:
            print(text, file=sys.stderr, flush=True)
        except UnicodeEncodeError:  # a terminal that knows no σ
            print(text.encode("ascii", "replace").decode(), file=sys.stderr, flush=True)


def _print_rich(panel: RenderableType) -> None:
    from rich.console import Console as RichConsole

    with contextlib.suppress(AttributeError, OSError, ValueError):
        RichConsole(stderr=True).print(panel)
