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

from klarm.server import openapi
from klarm.server.access import Access
from klarm.server.events import EventStream
from klarm.server.guard import Guard
from klarm.server.handlers import File
from klarm.server.index import Index
from klarm.server.login import LoginPages
from klarm.server.page import Page
from klarm.server.parameters import Arguments, read_body
from klarm.server.problems import ApiError, not_found
from klarm.server.requests import body_of, check_json
from klarm.server.routes import PREFIX, ROUTES, Route
from klarm.version import __version__

_Endpoint = Callable[[Request], Awaitable[Response]]
_MIN_COMPRESSED = 4096
_encode = msgspec.json.Encoder().encode


def make_app(index: Index, access: Access, say: Callable[[str], None], page: Page) -> Starlette:
    """Return the application. `say` is called with internal errors."""
    answering = _Answering(index, say)
    login, stream = LoginPages(access), EventStream(index.changes)
    health = _encode(openapi.Health("ok", __version__))
    described = _encode(openapi.description())

    async def answer_health(_: Request) -> Response:
        return Response(health, media_type="application/json")

    async def answer_description(_: Request) -> Response:
        return Response(described, media_type="application/json")

    async def answer_unknown(request: Request) -> Response:
        for route in request.app.routes:
            if route.matches(request.scope)[0] is Match.PARTIAL:
                raise ApiError(405, "method_not_allowed", f"{request.method} is not possible here")
        raise not_found(f"there is nothing at {request.url.path!r:.80}")

    def routed(path: str, endpoint: _Endpoint, *methods: str) -> StarletteRoute:
        return StarletteRoute(path, answering.guarded(endpoint), methods=methods or ["GET"])

    every = ["GET", "POST", "PUT", "DELETE", "PATCH"]
    return Starlette(
        routes=[
            *answering.routes(),
            routed(f"{PREFIX}/health", answer_health),
            routed(f"{PREFIX}/openapi.json", answer_description),
            routed(f"{PREFIX}/events", stream.answer),
            routed(f"{PREFIX}/session", login.session, "GET", "POST", "DELETE"),
            routed("/api/{rest:path}", answer_unknown, *every),
            routed("/login", login.form, "GET", "POST"),
            routed("/{rest:path}", page.answer),
        ],
        middleware=[Middleware(Guard, access=access)],
        exception_handlers={HTTPException: _answer_http_error},
    )


class _Answering:
    """Answers requests. This is the one place of the server that catches every exception."""

    def __init__(self, index: Index, say: Callable[[str], None]) -> None:
        self._index, self._say = index, say

    def routes(self) -> list[StarletteRoute]:
        """Return the routes of the table, one per path: other methods get a 405."""
        paths: dict[str, dict[str, Route]] = {}
        for route in ROUTES:
            paths.setdefault(route.path, {})[route.method] = route
        return [
            StarletteRoute(
                f"{PREFIX}{path}", self.guarded(self._endpoint(by_method)), methods=list(by_method)
            )
            for path, by_method in paths.items()
        ]

    def guarded(self, endpoint: _Endpoint) -> _Endpoint:
        """Return an endpoint that turns every exception into a JSON answer."""

        async def guarded(request: Request) -> Response:
            try:
                return await endpoint(request)
            except ApiError as problem:
                return _problem(problem)
            except Exception as error:  # noqa: BLE001
                self._say(f"{request.method} {request.url.path}: {type(error).__name__}: {error}")
                text = "internal error; see the terminal of klarm serve"
                return _problem(ApiError(500, "internal", text))

        return guarded

    def _endpoint(self, by_method: dict[str, Route]) -> _Endpoint:
        async def endpoint(request: Request) -> Response:
            route = by_method["GET" if request.method == "HEAD" else request.method]
            body: object = None
            if route.body is not None:
                data = await body_of(request)
                check_json(request, data)
                body = read_body(route.body, data)
            arguments = Arguments.read(
                route.parameters, request.path_params, request.query_params, body
            )
            answer = await run_in_threadpool(self._answer, route, arguments)
            if isinstance(answer, File):
                return _file(answer)
            return _json(request, answer)

        return endpoint

    def _answer(self, route: Route, arguments: Arguments) -> File | bytes:
        found = route.handler(self._index, arguments)
        return found if isinstance(found, File) else _encode(found)


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
    return StreamingResponse(file.content(), headers=headers, media_type=file.kind)


def _problem(problem: ApiError) -> Response:
    return Response(problem.as_json(), problem.status, media_type="application/json")


async def _answer_http_error(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    if status == 405:
        problem = ApiError(405, "method_not_allowed", f"{request.method} is not possible here")
    else:
        problem = ApiError(status, "not_found" if status == 404 else "bad_request", str(error))
    answer = _problem(problem)
    if isinstance(error, HTTPException) and error.headers:
        answer.headers.update(error.headers)
    return answer
