"""The monitor of a run that is not to be watched: it has every method, and none does anything."""

from __future__ import annotations

from collections.abc import Mapping

from klarm.console import Console
from klarm.monitor.monitor import Monitor
from klarm.notices import Notices
from klarm.types import Alert

DISABLED = (
    "disabled (KLARM_DISABLED, or disabled: true): nothing is watched, recorded or sent in this run"
)


class DisabledMonitor(Monitor):
    """Stands in for a monitor where klarm is switched off, so that no script needs a condition.

    It opens no file, starts no thread and keeps nothing of what it is given: it is silent from the
    start, as other monitors are after `finish`.
    """

    def __init__(self, run: str, notices: Notices) -> None:
        super().__init__(run, [], console=Console(enabled=False, notices=notices))
        self._silent_because = DISABLED
        notices.say(DISABLED)

    def log(self, metrics: Mapping[str, object], step: object = None) -> list[Alert]:  # noqa: ARG002
        """Do nothing. That it does nothing was said at the start."""
        return []

    def watch_end(self) -> None:
        """Do nothing."""

    def _repr_html_(self) -> str:
        from klarm.notebook import html_table

        return html_table(f"klarm run {self.run}", [("state", DISABLED)])
