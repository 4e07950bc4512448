"""The guard: checks every request first, and adds security headers to every answer."""

from __future__ import annotations

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from klarm.server.access import Access
from klarm.server.problems import ApiError
from klarm.server.routes import PREFIX

# These need no login, because they reveal nothing about runs.
OPEN_PATHS = tuple(f"{PREFIX}/{name}" for name in ("health", "session"))
_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; "
        "form-action 'self'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # With "no-referrer", the login form would be sent without an origin.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


class Guard:
    """Rejects requests with a foreign host, from a foreign origin, or without a login."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app, self._access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or reject it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        problem = self._problem(scope)
        if problem is None:
            await self._app(scope, receive, send_with_headers)
            return
        headers = {"WWW-Authenticate": 'Bearer realm="klarm"'} if problem.status == 401 else {}
        await problem.answer(headers)(scope, receive, send_with_headers)

    def _problem(self, scope: Scope) -> ApiError | None:
        headers, path = Headers(scope=scope), str(scope["path"])
        host = headers.get("host", "")
        if not self._access.is_our_host(host):
            return ApiError(
                403,
                "forbidden",
                f"{host!r:.80} is not a name of this server; to allow it, start klarm serve with "
                "--allow-host",
            )
        if scope["method"] not in _SAFE_METHODS and not self._access.is_our_origin(
            headers.get("origin", ""), host, headers.get("sec-fetch-site", "")
        ):
            return ApiError(403, "forbidden", "the request comes from another page")
        if not path.startswith("/api/") or path in OPEN_PATHS:
            return None
        if self._access.is_allowed(headers.get("authorization", ""), headers.get("cookie", "")):
            return None
        return ApiError(
            401, "login_needed", "log in at /login, or send the token as a bearer token"
        )
