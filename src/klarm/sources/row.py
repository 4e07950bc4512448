"""A row of a log, whatever its format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

# What logs call the step, the likeliest first.
_STEP_KEYS = ("step", "global_step", "train/global_step", "training/global_step", "_step")


class SourceError(Exception):
    """A log that cannot be read: says which, and why."""


class LogRow(NamedTuple):
    """What a log holds of one step; no step means the previous plus one."""

    step: object
    metrics: Mapping[str, object]

    @classmethod
    def of(cls, fields: Mapping[str, object]) -> LogRow:
        """Take a log's own step key out of its fields.

        >>> LogRow.of({"global_step": 7, "kl": 0.1})
        LogRow(step=7, metrics={'kl': 0.1})
        """
        for key in _STEP_KEYS:
            if key in fields:
                return cls(fields[key], {k: v for k, v in fields.items() if k != key})
        return cls(None, fields)
