"""The configuration: klarm.yaml, environment and keywords, merged and checked."""

from __future__ import annotations

from klarm.config.channels import SECTION, channel_defaults
from klarm.config.config import TOP_LEVEL, Config
from klarm.config.file import DEFAULT_FILE
from klarm.config.layers import SECTIONS, known_sections, load
from klarm.config.recorded import recorded_routes

__all__ = [
    "DEFAULT_FILE",
    "SECTION",
    "SECTIONS",
    "TOP_LEVEL",
    "Config",
    "channel_defaults",
    "json_schema",
    "known_sections",
    "load",
    "recorded_routes",
]


def json_schema() -> dict[str, object]:
    """Return the JSON Schema of klarm.yaml. It loads every kind of channel."""
    from klarm.config import schema

    return schema.json_schema()
