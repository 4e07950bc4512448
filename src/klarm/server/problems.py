"""What the API answers when it cannot do what it was asked."""

from __future__ import annotations

import msgspec


class ApiError(Exception):
    """An answer of 400 or more: what is wrong, for people and for programs."""

    def __init__(self, status: int, code: str, message: str, parameter: str = "") -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.parameter = status, code, message, parameter

    def as_json(self) -> bytes:
        """Return the body of the answer."""
        error = {"code": self.code, "message": self.message}
        if self.parameter:
            error["parameter"] = self.parameter
        return msgspec.json.encode({"error": error})


def bad_request(message: str, parameter: str = "") -> ApiError:
    """Say that a request is wrong."""
    return ApiError(400, "bad_request", message, parameter)


def not_found(message: str, parameter: str = "") -> ApiError:
    """Say that there is no such thing."""
    return ApiError(404, "not_found", message, parameter)


def conflict(message: str) -> ApiError:
    """Say that this cannot be done to what it is asked of, as it stands."""
    return ApiError(409, "conflict", message)


def unavailable(message: str, status: int = 503) -> ApiError:
    """Say that this cannot be done here, for now."""
    return ApiError(status, "unavailable", message)
