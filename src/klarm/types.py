"""The words every part of klarm shares: Severity and Alert. Imports nothing of ours."""

from __future__ import annotations

from typing import Literal

import msgspec

Severity = Literal["warning", "critical"]
SEVERITIES: tuple[Severity, ...] = ("warning", "critical")  # the worse the later


class Alert(msgspec.Struct, frozen=True, tag_field="type", tag="alert"):
    """What one detector says at one step.

    The tag makes an alert a journal line as it stands.
    """

    detector: str
    severity: Severity
    step: int
    message: str
    metrics: dict[str, float | str]
    recommendation: str
