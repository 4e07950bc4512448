"""The application: connects routes, guard and page."""

from __future__ import annotations

import gzip
from collections.abc import Awaitable, Callable

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Match
from starlette.routing import Route as StarletteRoute

from klarm.server.access import Access
from klarm.server.events import EventStream
from klarm.server.export import File
from klarm.server.guard import Guard
from klarm.server.index import Index
from klarm.server.login import LoginPages
from klarm.server.page import Page
from klarm.server.problems import ApiError, not_found
from klarm.server.requests import Query, body_of, check_json, read_body, read_query
from klarm.server.routes import PREFIX, ROUTES, Route
from klarm.version import __version__

_Endpoint = Callable[[Request], Awaitable[Response]]
_MIN_COMPRESSED = 4096
_encode = msgspec.json.Encoder().encode


def make_app(index: Index, access: Access, say: Callable[[str], None], page: Page) -> Starlette:
    """Return the application. `say` is called with internal errors."""
    login, stream = LoginPages(access), EventStream(index.changes)

    def routed(path: str, endpoint: _Endpoint, *methods: str) -> StarletteRoute:
        return StarletteRoute(path, _guarded(endpoint, say), methods=methods or ["GET"])

    return Starlette(
        routes=[
            *(routed(f"{PREFIX}{r.path}", _endpoint(r, index), r.method) for r in ROUTES),
            routed(f"{PREFIX}/health", _answer_health),
            routed(f"{PREFIX}/events", stream.answer),
            routed(f"{PREFIX}/session", login.session, "GET", "POST", "DELETE"),
            routed("/api/{rest:path}", _answer_unknown, "GET", "POST", "PUT", "DELETE", "PATCH"),
            routed("/login", login.form, "GET", "POST"),
            routed("/{rest:path}", page.answer),
        ],
        middleware=[Middleware(Guard, access=access)],
        exception_handlers={HTTPException: _answer_http_error},
    )


def _guarded(endpoint: _Endpoint, say: Callable[[str], None]) -> _Endpoint:
    """Return an endpoint that answers every exception in JSON: the one place that catches all."""

    async def guarded(request: Request) -> Response:
        try:
            return await endpoint(request)
        except ApiError as problem:
            return problem.answer()
        except Exception as error:  # noqa: BLE001
            say(f"{request.method} {request.url.path}: {type(error).__name__}: {error}")
            text = "internal error; see the terminal of klarm serve"
            return ApiError(500, "internal", text).answer()

    return guarded


def _endpoint(route: Route, index: Index) -> _Endpoint:
    def answer(path: dict[str, str], given: list[object]) -> File | bytes:
        found = route.answer(index, path, *given)
        return found if isinstance(found, File) else _encode(found)

    async def endpoint(request: Request) -> Response:
        given: list[object] = []
        query = read_query(route.query or Query, request.query_params)
        if route.query is not None:
            given.append(query)
        if route.body is not None:
            data = await body_of(request)
            check_json(request, data)
            given.append(read_body(route.body, data))
        found = await run_in_threadpool(answer, request.path_params, given)
        return _file(found) if isinstance(found, File) else _json(request, found)

    return endpoint


async def _answer_health(_: Request) -> Response:
    health = {"status": "ok", "klarm": __version__}
    return Response(_encode(health), media_type="application/json")


async def _answer_unknown(request: Request) -> Response:
    raise _not_possible(request)


async def _answer_http_error(request: Request, error: Exception) -> Response:
    return _not_possible(request).answer(getattr(error, "headers", None))


def _not_possible(request: Request) -> ApiError:
    for route in request.app.routes:
        if route.matches(request.scope)[0] is Match.PARTIAL:
            text = f"{request.method} is not possible here"
            return ApiError(405, "method_not_allowed", text)
    return not_found(f"there is nothing at {request.url.path!r:.80}")


def _json(request: Request, content: bytes) -> Response:
    headers = {"Vary": "Accept-Encoding"}
    if len(content) >= _MIN_COMPRESSED and "gzip" in request.headers.get("accept-encoding", ""):
        headers["Content-Encoding"] = "gzip"
        content = gzip.compress(content, 1)
    return Response(content, headers=headers, media_type="application/json")


def _file(file: File) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="{file.name}"'}
    if isinstance(file.content, bytes):
        return Response(file.content, headers=headers, media_type=file.kind)
    return StreamingResponse(file.content, headers=headers, media_type=file.kind)
