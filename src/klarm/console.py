"""What a person sees in the terminal: a line for news, a panel for an alert. On stderr."""

from __future__ import annotations

import contextlib
import select
import sys
from typing import TYPE_CHECKING

from klarm.types import Alert, Event, Severity

if TYPE_CHECKING:
    from rich.console import RenderableType

COLOURS: dict[Severity, str] = {"warning": "yellow", "critical": "red"}

# An alert like one so few rows ago is shown in one line, without saying again what to do.
_REPEAT_ROWS = 20
# Takes away a progress bar that stands on the line; it draws itself again.
_CLEAR_LINE = "\r\x1b[K"


class Console:
    """Writes to stderr; a terminal gets panels, anything else gets plain lines.

    A stderr that is closed, broken or that nobody reads is no reason to disturb a run: what cannot
    be shown at once is not shown.
    """

    def __init__(self, enabled: bool = True) -> None:
        self.enabled = enabled
        self._terminal = enabled and _is_terminal()
        self._last_rows: dict[tuple[str, Severity], int] = {}
        if self._terminal:
            import rich.console
            import rich.panel  # noqa: F401  # loaded now: the first alert must not wait for it

    def say(self, message: str) -> None:
        """Print one line of news."""
        if self.enabled:
            self._print(f"klarm: {message}")

    def alert(self, alert: Alert, row: int | None = None) -> None:
        """Show an alert: in full, or in one line if its like was shown a few rows ago.

        A row is a step that was logged; where steps are counted in timesteps, they are far apart.
        """
        if not self.enabled:
            return
        kind = (alert.detector, alert.severity)
        now = alert.step if row is None else row
        since = now - self._last_rows.get(kind, now - _REPEAT_ROWS - 1)
        self._last_rows[kind] = now
        if 0 <= since <= _REPEAT_ROWS:
            self._print(alert_line(alert))
        elif self._terminal:
            self._print("", end="")
            _print_panel(alert_panel(alert))
        else:
            self._print(f"{alert_line(alert)}\n  -> {alert.recommendation}")

    def event(self, event: Event) -> None:
        """Show that an incident opened, got worse or is over."""
        if self.enabled:
            self._print(event_line(event))

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


def alert_line(alert: Alert) -> str:
    """Return an alert as one line."""
    return f"klarm {alert.severity.upper()} at step {alert.step}, {alert.detector}: {alert.message}"


def event_line(event: Event) -> str:
    """Return a change of an incident as a line, with what else moved if it opened."""
    line = (
        f"klarm INCIDENT {event.incident} on {event.signal} {event.event} at step {event.step} "
        f"({event.severity}, since step {event.started}, {', '.join(event.detectors)}): "
        f"{event.reason}"
    )
    if event.moved:
        line += f"\n  moved: {event.moved}"
    if event.pattern:
        line += f"\n  looks like {event.pattern}: {event.cause}. {event.remedy}"
    if event.checkpoint:
        line += f"\n  last checkpoint from before it: {event.checkpoint}"
    return line


def alert_panel(alert: Alert) -> RenderableType:
    """Return an alert as a rich panel, with what to do."""
    from rich.panel import Panel
    from rich.text import Text

    colour = COLOURS[alert.severity]
    body = Text.assemble((alert.message, "bold"), "\n", ("→ ", colour), alert.recommendation)
    title = Text(f"klarm {alert.severity}: {alert.detector}, step {alert.step}", f"bold {colour}")
    return Panel(body, title=title, title_align="left", border_style=colour)


def counted(count: int, noun: str) -> str:
    """Return a number of things.

    >>> counted(1, "step"), counted(12, "critical alert")
    ('1 step', '12 critical alerts')
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


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
