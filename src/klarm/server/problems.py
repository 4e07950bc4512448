"""The error answers of the API."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from starlette.responses import Response


class ApiError(Exception):
    """An answer with a status of 400 or more, with a code for programs and a text for people."""

    def __init__(self, status: int, code: str, message: str, parameter: str = "") -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.parameter = status, code, message, parameter

    def answer(self, headers: Mapping[str, str] | None = None) -> Response:
        """Return the answer."""
        error = {"code": self.code, "message": self.message}
        if self.parameter:
            error["parameter"] = self.parameter
        content = msgspec.json.encode({"error": error})
        return Response(content, self.status, headers, media_type="application/json")


def bad_request(message: str, parameter: str = "") -> ApiError:
    """Return the error for an invalid request."""
    return ApiError(400, "bad_request", message, parameter)


def not_found(message: str, parameter: str = "") -> ApiError:
    """Return the error for something that does not exist."""
    return ApiError(404, "not_found", message, parameter)


def conflict(message: str) -> ApiError:
    """Return the error for an action that the current state does not allow."""
    return ApiError(409, "conflict", message)


def unavailable(message: str, status: int = 503) -> ApiError:
    """Return the error for something that is temporarily not possible here."""
    return ApiError(status, "unavailable", message)
