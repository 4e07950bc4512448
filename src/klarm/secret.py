"""A secret: a setting that is used, and never shown."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from klarm.masking import HIDDEN, hide, parts_of
from klarm.settings import ConfigError

_HOW = "must be {env: NAME}, {file: PATH} or text (what was given is not shown)"
_OR_OFF = "or switch the channel off (enabled: false)"


class Secret:
    """A webhook's address, a token, a password. Only `reveal` gives it away.

    It is named in klarm.yaml by where it stands, `{env: SLACK_WEBHOOK}` or
    `{file: /run/secrets/slack}`, or given as plain text, and read when a channel is made.
    """

    def __init__(self, text: str = "", *, env: str = "", file: str = "") -> None:
        self._text = text
        self.env = env
        self.file = file

    @classmethod
    def as_setting(cls, value: object) -> Secret:
        """Return what a file, the environment or a keyword spells, unread."""
        if isinstance(value, Secret):
            return value
        if isinstance(value, str):
            return cls(value.strip())
        if isinstance(value, Mapping) and len(value) == 1:
            ((where, name),) = value.items()
            if where in ("env", "file") and isinstance(name, str) and name:
                return cls(**{where: name})
        raise ConfigError(_HOW)

    @property
    def plain(self) -> bool:
        """Whether the text itself was given, and not where it stands."""
        return bool(self._text) and not self.env and not self.file

    def fetched(self, environment: Mapping[str, str] = os.environ) -> Secret:
        """Return it with its text, or raise ConfigError naming what is not there."""
        if self._text or not self:
            return self
        if self.env:
            text = environment.get(self.env, "").strip()
            if not text:
                raise ConfigError(
                    f"is in the environment variable {self.env}, which is not set; "
                    f"set it (export {self.env}=...), {_OR_OFF}"
                )
        else:
            try:
                text = Path(self.file).expanduser().read_text(encoding="utf-8").strip()
            except (OSError, ValueError, RuntimeError) as error:
                why = getattr(error, "strerror", None) or "it is no text"
                raise ConfigError(
                    f"is in the file {self.file}, which cannot be read: {why}; "
                    f"put it there, {_OR_OFF}"
                ) from None
            if not text:
                raise ConfigError(
                    f"is in the file {self.file}, which is empty; put it there, {_OR_OFF}"
                )
        return Secret(text, env=self.env, file=self.file)

    def reveal(self) -> str:
        """Return the text. Whoever asks must not print, keep or raise it."""
        return self._text

    def hide_in(self, text: str) -> str:
        """Return a text without the secret, and without any telling piece if it is an address."""
        return hide(parts_of(self._text), text)

    def spelt(self) -> object:
        """Return it as klarm.yaml would hold it, without the text."""
        if self.env:
            return {"env": self.env}
        if self.file:
            return {"file": self.file}
        return HIDDEN if self._text else ""

    def __bool__(self) -> bool:
        return bool(self._text or self.env or self.file)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def _identity(self) -> tuple[str, str, str]:
        return self._text, self.env, self.file

    def __repr__(self) -> str:
        return f"<secret {self.env or self.file or HIDDEN}>" if self else "<no secret>"

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, _: object) -> Secret:
        return self

    def __reduce__(self) -> tuple[object, ...]:
        return _named, (self.env, self.file)  # a pickle holds where it stands, not what it is


def _named(env: str, file: str) -> Secret:
    return Secret(env=env, file=file)


def shown(address: str) -> str:
    """Return an address as people may see it: without path, query and password.

    >>> shown("https://hooks.slack.com/services/T0/B0/x")
    'https://hooks.slack.com/…'
    """
    try:
        parts = urlsplit(address)
        port = f":{parts.port}" if parts.port else ""
        return f"{parts.scheme}://{parts.hostname}{port}/{HIDDEN}"
    except ValueError:
        return HIDDEN
