"""The OpenAPI description, generated from the table of routes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from klarm.server import events
from klarm.server.handlers import File
from klarm.server.login import Login, Session
from klarm.server.parameters import Parameter
from klarm.server.routes import PREFIX, ROUTES, Route
from klarm.version import __version__

_CODES = {
    400: "the request is invalid",
    401: "a login is needed",
    403: "the host or the origin is foreign",
    404: "not found",
    409: "the current state does not allow this",
    413: "the body is too large",
    500: "internal error",
    501: "an optional package is not installed",
    503: "temporarily unavailable",
}


class Health(msgspec.Struct):
    """The server is running."""

    status: str
    klarm: str


class ErrorDetail(msgspec.Struct):
    """What is wrong."""

    code: str
    message: str
    parameter: str = ""


class Failure(msgspec.Struct):
    """An answer of 400 or more."""

    error: ErrorDetail


def description() -> dict[str, Any]:
    """Return the OpenAPI description of every route."""
    types = list(
        dict.fromkeys(
            kind
            for route in ROUTES
            for kind in (route.answer, route.body)
            if kind is not None and kind is not File
        )
    )
    _, schemas = msgspec.json.schema_components(
        [*types, Health, Session, Login, Failure], ref_template="#/components/schemas/{name}"
    )
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        paths.setdefault(f"{PREFIX}{route.path}", {})[route.method.lower()] = _described(route)
    paths |= _other_paths()
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "klarm serve",
            "version": __version__,
            "description": "Runs, their curves and incidents. `klarm docs api` has examples.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _described(route: Route) -> dict[str, Any]:
    is_file = route.answer is File
    problems = {400, 401, 403, 500, *route.problems}
    if route.parameters and (any(p.in_path for p in route.parameters) or is_file):
        problems.add(404)
    if any(parameter.name == "runs" and parameter.min_names for parameter in route.parameters):
        problems.add(404)
    if route.body is not None:
        problems.add(413)
    good: dict[str, Any] = {"text/csv": {}, "application/vnd.apache.parquet": {}}
    if not is_file:
        good = _json(route.answer)
    return _operation(route.about, route.parameters, good, sorted(problems), route.body)


def _operation(
    about: str,
    parameters: Sequence[Parameter],
    good: dict[str, Any],
    problems: Sequence[int],
    body: type[Any] | None = None,
) -> dict[str, Any]:
    found: dict[str, Any] = {
        "summary": about,
        "parameters": [parameter.described() for parameter in parameters],
        "responses": {
            "200": {"description": "success", "content": good},
            **{
                str(status): {"description": _CODES[status], "content": _json(Failure)}
                for status in problems
            },
        },
    }
    if body is not None:
        required = any(field.required for field in msgspec.structs.fields(body))
        found["requestBody"] = {"required": required, "content": _json(body)}
    return found


def _json(kind: type[Any]) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{kind.__name__}"}}}


def _other_paths() -> dict[str, dict[str, Any]]:
    """Return the paths that do not use the index: health, session, events, this description."""
    anything = {"application/json": {"schema": {"type": "object"}}}
    stream = {"text/event-stream": {"schema": {"type": "string"}}}
    session = _json(Session)
    return {
        f"{PREFIX}/health": {
            "get": _operation("Whether the server is running", (), _json(Health), (403,))
        },
        f"{PREFIX}/openapi.json": {"get": _operation("This description", (), anything, (403,))},
        f"{PREFIX}/events": {
            "get": _operation("Live updates", events.PARAMETERS, stream, (400, 401, 403))
        },
        f"{PREFIX}/session": {
            "get": _operation("Whether a login is needed", (), session, (403,)),
            "post": _operation("Log in", (), session, (400, 401, 403, 413), Login),
            "delete": _operation("Log out", (), session, (403,)),
        },
    }
