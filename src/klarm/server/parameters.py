"""Parameters of a request: declared once, used for validation and for the OpenAPI description."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar
from urllib.parse import unquote

import msgspec

from klarm.server.problems import bad_request

_Body = TypeVar("_Body")
_MAX_TEXT = 10_000
_MAX_NUMBER = 2**53


@dataclass(frozen=True)
class Parameter:
    """A parameter in the path or the query of a request."""

    name: str
    meaning: str
    kind: Literal["text", "integer", "number", "flag", "names"] = "text"
    default: object = None
    low: int | None = None
    high: int | None = None
    choices: tuple[str, ...] = ()
    max_names: int = 0  # 0: no limit
    min_names: int = 0
    in_path: bool = False

    def read(self, text: str | None) -> object:
        """Return the value of a text, or raise ApiError."""
        if text is None or (text == "" and not self.in_path):
            if self.min_names:
                raise bad_request(f"{self.name} is missing", self.name)
            return [] if self.kind == "names" and self.default is None else self.default
        if len(text) > _MAX_TEXT or "\0" in text:
            raise bad_request(f"{self.name} is too long or contains a NUL character", self.name)
        if self.kind == "names":
            return self._names(text)
        if self.kind == "flag":
            if text not in ("true", "false"):
                raise bad_request(f"{self.name} must be true or false, got {text!r:.80}", self.name)
            return text == "true"
        if self.kind in ("integer", "number"):
            return self._number(text)
        if self.choices and text not in self.choices:
            listed = " or ".join(self.choices)
            raise bad_request(f"{self.name} must be {listed}, got {text!r:.80}", self.name)
        return text

    def _names(self, text: str) -> list[str]:
        names = list(dict.fromkeys(unquote(part) for part in text.split(",") if part))
        if self.max_names and len(names) > self.max_names:
            raise bad_request(f"{self.name} may name at most {self.max_names}", self.name)
        if len(names) < self.min_names:
            raise bad_request(f"{self.name} must name at least {self.min_names}", self.name)
        return names

    def _number(self, text: str) -> float | int:
        what = "a whole number" if self.kind == "integer" else "a number"
        try:
            value: float | int = int(text) if self.kind == "integer" else float(text)
        except ValueError:
            value = math.nan
        # NaN, and numbers beyond the exact integers of a float, are invalid.
        if not abs(value) <= _MAX_NUMBER or not text.isascii():
            raise bad_request(f"{self.name} must be {what}, got {text!r:.80}", self.name)
        if (self.low is not None and value < self.low) or (
            self.high is not None and value > self.high
        ):
            raise bad_request(
                f"{self.name} must be between {self.low} and {self.high}, got {text!r:.80}",
                self.name,
            )
        return value

    def described(self) -> dict[str, Any]:
        """Return the parameter in the form of OpenAPI."""
        kinds = {"integer": "integer", "number": "number", "flag": "boolean"}
        schema: dict[str, Any] = {"type": kinds.get(self.kind, "string")}
        if self.choices:
            schema["enum"] = list(self.choices)
        if self.low is not None:
            schema["minimum"] = self.low
        if self.high is not None:
            schema["maximum"] = self.high
        if isinstance(self.default, list):
            schema["default"] = ",".join(self.default)
        elif self.default is not None:
            schema["default"] = self.default
        return {
            "name": self.name,
            "in": "path" if self.in_path else "query",
            "required": self.in_path or bool(self.min_names),
            "description": self.meaning,
            "schema": schema,
        }


class Arguments:
    """The arguments of a request, checked against the parameters of its route."""

    def __init__(self, values: Mapping[str, object], body: object = None) -> None:
        self._values, self._body = values, body

    @classmethod
    def read(
        cls,
        parameters: Sequence[Parameter],
        path: Mapping[str, str],
        query: Mapping[str, str],
        body: object = None,
    ) -> Arguments:
        """Check the path and the query of a request, or raise ApiError."""
        known = {parameter.name for parameter in parameters}
        for name in query:
            if name not in known:
                listed = ", ".join(sorted(known - path.keys())) or "none"
                raise bad_request(f"{name!r:.80} is unknown; parameters are {listed}", name[:80])
        return cls(
            {
                parameter.name: parameter.read(
                    (path if parameter.in_path else query).get(parameter.name)
                )
                for parameter in parameters
            },
            body,
        )

    def text(self, name: str) -> str:
        """Return a text; an empty one if it was left out."""
        value = self._values[name]
        return value if isinstance(value, str) else ""

    def integer(self, name: str) -> int:
        """Return a whole number that has a default."""
        value = self._values[name]
        if not isinstance(value, int):
            raise TypeError(name)
        return value

    def optional_integer(self, name: str) -> int | None:
        """Return a whole number, or None."""
        value = self._values[name]
        return value if isinstance(value, int) else None

    def optional_number(self, name: str) -> float | None:
        """Return a number, or None."""
        value = self._values[name]
        return float(value) if isinstance(value, int | float) else None

    def flag(self, name: str) -> bool:
        """Return whether a flag is true."""
        return self._values[name] is True

    def names(self, name: str) -> list[str]:
        """Return a list of names; an empty one if it was left out."""
        value = self._values[name]
        return list(value) if isinstance(value, list) else []

    def body(self, kind: type[_Body]) -> _Body:
        """Return the body, of the kind that the route declares."""
        if not isinstance(self._body, kind):
            raise TypeError(kind.__name__)
        return self._body


def read_body(kind: type[_Body], data: bytes) -> _Body:
    """Return the body of a request, or raise ApiError that names the invalid field."""
    try:
        return msgspec.json.decode(data or b"{}", type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise bad_request(f"the body is invalid: {error}") from None
