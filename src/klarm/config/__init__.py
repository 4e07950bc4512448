"""The configuration: klarm.yaml, environment and keywords, merged and checked."""

from __future__ import annotations

from klarm.config.channels import SECTION
from klarm.config.file import DEFAULT_FILE
from klarm.config.layers import SECTIONS, TOP_LEVEL, Config, load

__all__ = [
    "DEFAULT_FILE",
    "SECTION",
    "SECTIONS",
    "TOP_LEVEL",
    "Config",
    "json_schema",
    "load",
]


def json_schema() -> dict[str, object]:
    """Return the JSON Schema of klarm.yaml. It loads every kind of channel."""
    from klarm.config import schema

    return schema.json_schema()
