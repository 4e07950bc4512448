"""The desktop of the user who runs klarm: a notification, or else a line and a bell on stderr."""

from __future__ import annotations

import html
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from klarm.channels.base import Channel, Receipt
from klarm.channels.message import Message
from klarm.channels.text import one_line
from klarm.terminal import write_stderr

_MAX_TEXT = 300
# The text is passed as arguments, so that none of it is executed as a script.
_SCRIPT = (
    "on run argv",
    "display notification (item 2 of argv) with title (item 1 of argv)",
    "end run",
)


@dataclass(kw_only=True, repr=False)
class DesktopChannel(Channel):
    """Shows a notification by notify-send or osascript, or writes a line with a bell to stderr."""

    type: ClassVar[str] = "desktop"

    def send(self, message: Message, earlier: Mapping[str, str]) -> Receipt:  # noqa: ARG002
        """Show the message on this machine."""
        title = one_line(f"klarm: {message.title}", _MAX_TEXT)
        text = one_line(message.summary or message.body, _MAX_TEXT)
        urgent = message.severity == "critical" and message.event != "resolved"
        for command in _commands(title, text, urgent):
            if self._run(command):
                return {}
        if not write_stderr(f"{title}\n  {text}", bell=True):
            raise self.not_delivered("there is neither a desktop nor a terminal here", retry=False)
        return {}

    def _run(self, command: list[str]) -> bool:
        program = shutil.which(command[0])
        if program is None:
            return False
        try:
            done = subprocess.run(
                [program, *command[1:]],
                timeout=self.timeout_seconds,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=False,
            )
        except (OSError, subprocess.SubprocessError):
            return False
        return done.returncode == 0  # it fails on a machine without a desktop session


def _commands(title: str, text: str, urgent: bool) -> list[list[str]]:
    urgency = "critical" if urgent else "normal"
    script = [part for line in _SCRIPT for part in ("-e", line)]
    return [
        # notify-send interprets markup in the body, but not in the title.
        ["notify-send", "-a", "klarm", "-u", urgency, "--", title, html.escape(text, quote=False)],
        ["osascript", *script, title, text],
    ]
