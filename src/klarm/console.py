"""The output on stderr: one line for news, a panel for an incident."""

from __future__ import annotations

from klarm.incidents import is_alarm, is_crash
from klarm.notices import Notices
from klarm.terminal import keeping_random_state, show_on_stderr, stderr_is_terminal, write_stderr
from klarm.text import clean
from klarm.types import Alert, Event
from klarm.wording import event_panel, event_text


class Console:
    """Writes to stderr; a terminal gets panels, anything else gets plain lines.

    A stderr that is closed or broken, or that nobody reads, never disturbs a run; `nonblocking.py`
    says what becomes of the text.
    """

    def __init__(
        self, enabled: bool = True, *, alerts: bool = False, notices: Notices | None = None
    ) -> None:
        self.enabled = enabled
        # What klarm says about itself. A program can read it even if the console is off.
        self.notices = notices or Notices(muted=not enabled)
        self._alerts = enabled and alerts
        self._terminal = enabled and stderr_is_terminal()
        if self._terminal:
            with keeping_random_state():  # loaded now: the first incident must not wait for it
                import rich.console
                import rich.panel
                import rich.text  # noqa: F401

    def say(self, message: str) -> None:
        """Print one line of news."""
        self.notices.say(message)

    def alert(self, alert: Alert) -> None:
        """Show an alert in one line, if the setting `console_alerts` is on."""
        if self._alerts:
            write_stderr(
                f"klarm {alert.severity.upper()} at step {alert.step}, {alert.detector}: "
                f"{alert.message}"
            )

    def first_alert(self, alert: Alert) -> None:
        """Show the first alert of an episode in one dim line: it is not confirmed yet."""
        if not self.enabled or self._alerts:  # it shows every alert anyway
            return
        line = (
            f"klarm: step {alert.step}, {alert.detector} {alert.severity}, not confirmed yet: "
            f"{alert.message}"
        )
        if self._terminal:
            from rich.text import Text

            show_on_stderr(Text(clean(line), "dim"))
        else:
            write_stderr(line)

    def event(self, event: Event) -> None:
        """Show a change of an incident: as a panel if it is an alarm, otherwise as one line.

        The last lines of a run list the incidents that it leaves open; a crash is also in the
        traceback.
        """
        if not self.enabled or is_crash(event) or event.event == "ended":
            return
        if self._terminal and is_alarm(event):
            show_on_stderr(event_panel(event))
        else:
            write_stderr(event_text(event))
