"""Reads the bodies of requests, with a size limit."""

from __future__ import annotations

from starlette.requests import Request

from klarm.server.problems import ApiError, bad_request

_MAX_BODY = 256 * 1024


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
