"""Reads requests: the query and the body, each converted to a struct that says what is allowed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, TypeVar
from urllib.parse import unquote

import msgspec
from msgspec import Meta, inspect
from starlette.requests import Request

from klarm.server.problems import ApiError, bad_request

_MAX_BODY = 256 * 1024
_MAX_TEXT = 10_000
# Whole numbers up to here are exact as a float. NaN and the infinities are out of range.
LARGEST = 2**53
Whole = Annotated[int, Meta(ge=-LARGEST, le=LARGEST)]
Coordinate = Annotated[float, Meta(ge=-LARGEST, le=LARGEST)]
Names = tuple[str, ...]  # percent-encoded and joined by commas


class Query(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The query of a request; a parameter that is empty counts as left out."""


_Query = TypeVar("_Query", bound=Query)
_Body = TypeVar("_Body")


def read_query(kind: type[_Query], query: Mapping[str, str]) -> _Query:
    """Return the query of a request, or raise ApiError that names the invalid parameter."""
    declared = msgspec.structs.fields(kind)
    parameters = {field.encode_name: inspect.type_info(field.type) for field in declared}
    given: dict[str, str | list[str]] = {}
    for name, text in query.items():
        if name not in parameters:
            listed = ", ".join(sorted(parameters)) or "none"
            raise bad_request(f"{name!r:.80} is unknown; parameters are {listed}", name[:80])
        if len(text) > _MAX_TEXT or "\0" in text:
            raise bad_request(f"{name} is too long or contains a NUL character", name)
        if text:
            is_list = isinstance(parameters[name], inspect.VarTupleType)
            given[name] = _split(text) if is_list else text
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        name = str(error).split("`")[-2].removeprefix("$.")  # "Expected … - at `$.width`"
        allowed, text = _allowed(parameters[name]), query.get(name, "")
        raise bad_request(f"{name} must be {allowed}, got {text!r:.80}", name) from None


def read_body(kind: type[_Body], data: bytes) -> _Body:
    """Return the body of a request, or raise ApiError that names the invalid field."""
    try:
        return msgspec.json.decode(data or b"{}", type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        field = re.search(r"`\$\.(\w+)", str(error))
        raise bad_request(f"the body is invalid: {error}", field[1] if field else "") from None


async def body_of(request: Request) -> bytes:
    """Return the body of a request, or raise ApiError if it is too large."""
    pieces: list[bytes] = []
    size = 0
    async for piece in request.stream():
        size += len(piece)
        if size > _MAX_BODY:
            raise ApiError(413, "too_large", f"a body may have at most {_MAX_BODY} bytes")
        pieces.append(piece)
    return b"".join(pieces)


def check_json(request: Request, body: bytes) -> None:
    """Reject a body that is not declared as JSON: a form on another page could send it (CSRF)."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if body and kind != "application/json":
        raise bad_request("the body must be sent with Content-Type: application/json")


def _split(text: str) -> list[str]:
    return list(dict.fromkeys(unquote(part) for part in text.split(",") if part))


def _allowed(kind: inspect.Type) -> str:
    """Return what a parameter may be, in words."""
    match kind:
        case inspect.LiteralType(values=choices):
            return " or ".join(map(str, choices))
        case inspect.BoolType():
            return "true or false"
        case inspect.IntType(ge=low, le=high):
            return f"a whole number between {low} and {high}"
        case inspect.FloatType():
            return "a number"
        case inspect.VarTupleType(min_length=fewest, max_length=most):
            return f"{fewest} to {most} names" if fewest else f"at most {most} names"
        case _:
            return "a text"
