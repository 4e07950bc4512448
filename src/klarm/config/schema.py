"""The JSON Schema of klarm.yaml, made from the same declarations that check it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from klarm.channels import channel_kind, usable_channels
from klarm.config.channels import SECTION as CHANNELS_SECTION
from klarm.config.config import TOP_LEVEL
from klarm.config.layers import known_sections
from klarm.config.routes import Route
from klarm.metrics import METRICS, STEP
from klarm.metrics import SECTION as METRICS_SECTION
from klarm.settings import Names, Secret, Setting, settings_of
from klarm.version import __version__

TITLE = "klarm.yaml"

_Schema = dict[str, Any]
_DRAFT = "http://json-schema.org/draft-07/schema#"  # what editors know
_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string"}
_TYPE = "type"


def json_schema() -> _Schema:
    """Return what klarm.yaml may hold: names, types, limits, and what each setting means."""
    properties = {name: _setting(declared) for name, declared in TOP_LEVEL.items()}
    properties[METRICS_SECTION] = _section(
        {
            STEP: {"type": "string", "description": "The column of a log that holds the step."},
            **{name: _key_of_user(metric.meaning) for name, metric in METRICS.items()},
        },
        "Where to read metrics whose keys klarm does not know.",
    )
    for name, settings in known_sections().items():
        properties[name] = _section({key: _setting(known) for key, known in settings.items()})
    types = usable_channels()
    properties[CHANNELS_SECTION] = _channels(types)
    definitions = {"channel": _any_channel(types)}
    definitions |= {type_: _channel(type_, types) for type_ in types}
    return {
        "$schema": _DRAFT,
        "title": TITLE,
        "$comment": f"written by klarm {__version__}; `klarm schema` prints it",
        **_section(properties),
        "definitions": definitions,
    }


def _section(properties: Mapping[str, object], description: str = "") -> _Schema:
    """Return a section, which may also stand there with nothing in it."""
    described = {"description": description} if description else {}
    return {
        **described,
        "type": ["object", "null"],
        "properties": dict(properties),
        "additionalProperties": False,
    }


def _setting(declared: Setting) -> _Schema:
    schema: _Schema = {"description": declared.meaning}
    if declared.kind is Secret:
        return schema | {"anyOf": [{"type": "string"}, _place("env"), _place("file")]}
    if issubclass(declared.kind, Names):
        names = {"type": "array", "items": {"type": "string"}}
        return schema | {"anyOf": [{"type": "string"}, names], "default": list(declared.default)}
    if declared.kind not in _TYPES:
        return schema  # klarm itself checks it
    schema |= {"type": _TYPES[declared.kind], "default": declared.default}
    if declared.choices:
        schema["enum"] = list(declared.choices)
    if declared.above is not None:
        schema["exclusiveMinimum"] = declared.above
    if declared.at_least is not None:
        schema["minimum"] = declared.at_least
    return schema


def _place(where: str) -> _Schema:
    """Return how a secret is named by where it stands."""
    return {
        "type": "object",
        "properties": {where: {"type": "string", "minLength": 1}},
        "required": [where],
        "additionalProperties": False,
    }


def _key_of_user(meaning: str) -> _Schema:
    text = {"type": "string", "minLength": 1}
    parts = {"type": "object", "properties": {"key": text, "kind": text}, "minProperties": 1}
    return {"description": meaning, "anyOf": [text, parts | {"additionalProperties": False}]}


def _channels(types: Sequence[str]) -> _Schema:
    """Return the section of channels: by a name of the user's, or by a type as the name."""
    named_by_type = {
        type_: {
            "if": {"type": "object", "required": [_TYPE]},
            "then": {"$ref": "#/definitions/channel"},
            "else": {"$ref": f"#/definitions/{type_}"},
        }
        for type_ in types
    }
    return {
        "description": "Who is notified of incidents.",
        "type": ["object", "null"],
        "properties": named_by_type,
        "additionalProperties": {
            "allOf": [{"$ref": "#/definitions/channel"}, {"type": "object", "required": [_TYPE]}]
        },
    }


def _any_channel(types: Sequence[str]) -> _Schema:
    """Return a channel whose type says which settings it has."""
    by_type = [
        {
            "if": {"properties": {_TYPE: {"const": type_}}, "required": [_TYPE]},
            "then": {"$ref": f"#/definitions/{type_}"},
        }
        for type_ in types
    ]
    return {"properties": {_TYPE: {"enum": list(types)}}, "allOf": by_type}


def _channel(type_: str, types: Sequence[str]) -> _Schema:
    declared = {**settings_of(channel_kind(type_)), **settings_of(Route)}
    settings = {name: _setting(known) for name, known in declared.items()}
    return _section({_TYPE: {"enum": list(types)}, **settings})
