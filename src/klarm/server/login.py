"""Login: a form for people, and a request for pages and programs."""

from __future__ import annotations

import asyncio
from urllib.parse import parse_qs, quote

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from klarm.server.access import COOKIE, SESSION_SECONDS, Access
from klarm.server.problems import ApiError
from klarm.server.requests import body_of, read_body

_WRONG_TOKEN_SECONDS = 0.5  # a delay that slows down guessing
_FORM = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>klarm: log in</title>
<meta name="viewport" content="width=device-width"></head><body>
<h1>klarm</h1>{said}
<form method="post" action="/login?next={address}">
<label>Token <input name="token" type="password" autocomplete="current-password" required
autofocus></label>
<button>Log in</button>
</form>
<p>Use the token with which <code>klarm serve</code> was started.</p>
</body></html>
"""


class Login(msgspec.Struct, forbid_unknown_fields=True):
    """A login with the token."""

    token: str


class Session(msgspec.Struct):
    """Whether a login is needed, and whether the client is logged in."""

    login_needed: bool
    logged_in: bool


class LoginPages:
    """The form, and the requests that open and close a session."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def form(self, request: Request) -> Response:
        """Show the form, or check the token that was entered."""
        address = _own_address(request.query_params.get("next", "/"))
        if not self._access.login_needed:
            return RedirectResponse(address, status_code=303)
        if request.method != "POST":
            return HTMLResponse(_FORM.format(said="", address=quote(address)))
        fields = parse_qs((await body_of(request)).decode(errors="replace"))
        if not self._access.knows_token(fields.get("token", [""])[0].strip()):
            await asyncio.sleep(_WRONG_TOKEN_SECONDS)
            said = "<p role=alert>Wrong token.</p>"
            return HTMLResponse(_FORM.format(said=said, address=quote(address)), status_code=401)
        answer = RedirectResponse(address, status_code=303)
        self._open(answer, request)
        return answer

    async def session(self, request: Request) -> Response:
        """Return whether there is a session, or open or close one."""
        if request.method == "POST":
            asked = read_body(Login, await body_of(request))
            if not self._access.knows_token(asked.token.strip()):
                await asyncio.sleep(_WRONG_TOKEN_SECONDS)
                raise ApiError(401, "login_needed", "wrong token", "token")
            answer = self._said(logged_in=True)
            self._open(answer, request)
            return answer
        if request.method == "DELETE":
            self._access.close_session(request.headers.get("cookie", ""))
            answer = self._said(logged_in=not self._access.login_needed)
            answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
            return answer
        return self._said(
            logged_in=self._access.is_allowed(
                request.headers.get("authorization", ""), request.headers.get("cookie", "")
            )
        )

    def _said(self, *, logged_in: bool) -> Response:
        said = Session(self._access.login_needed, logged_in)
        return Response(msgspec.json.encode(said), media_type="application/json")

    def _open(self, answer: Response, request: Request) -> None:
        answer.set_cookie(
            COOKIE,
            self._access.open_session(),
            max_age=SESSION_SECONDS,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )


def _own_address(address: str) -> str:
    """Return the path to open after the login, which must be on this server.

    >>> _own_address("/runs/a?x=1"), _own_address("//evil.example"), _own_address("https://evil")
    ('/runs/a?x=1', '/', '/')
    """
    is_path = address.startswith("/") and not address.startswith("//")
    is_plain = address.isprintable() and "\\" not in address
    return address if is_path and is_plain else "/"
