"""A secret: a setting whose value is never shown."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from klarm.settings.fields import ConfigError, did_you_mean
from klarm.settings.redact import HIDDEN, fragments_of, hide, parts_of

_HOW = "must be {env: NAME}, {file: PATH} or text (what was given is not shown)"
_OR_OFF = "or switch the channel off (enabled: false)"
# A user may write the secret itself instead of NAME in {env: NAME}, so not every name may be
# shown. Keys and tokens are long, without underscores, or in lower case.
_VARIABLE = re.compile(r"(?=.{1,60}$)([A-Z][A-Z0-9]{0,19}|[A-Z][A-Z0-9]*_[A-Z0-9_]*)")
_ADDRESS = re.compile(r".*://|//|[\w-]+(\.[\w-]+)+[:/]")
_LOOPBACK = re.compile(r"https?://(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d+)?(/.*)?", re.I)
_MAX_FILE_NAME = 20  # characters of a file name without a folder
_MAX_KEY = 30
# Spellings that shells and other tools accept for a variable, but klarm does not.
_REFERENCE = re.compile(r"\$\{(\w+)\}|\$([A-Z][A-Z0-9_]*)|env:\s*(\w+)")


class Secret:
    """The URL of a webhook, a token or a password. Only `reveal` returns it.

    klarm.yaml says where to find it, `{env: SLACK_WEBHOOK}` or `{file: /run/secrets/slack}`, or
    holds it as plain text. It is read when a channel is created.
    """

    def __init__(
        self, text: str = "", *, env: str = "", file: str = "", lost: bool = False
    ) -> None:
        self._text = text
        # Whether it was plain text in another process: a pickle does not contain the text.
        self.lost = lost
        self.env = env
        self.file = file

    @classmethod
    def as_setting(cls, value: object) -> Secret:
        """Return the secret that a file, the environment or a keyword names, without reading it."""
        if isinstance(value, Secret):
            return value
        if isinstance(value, str):
            _refuse_reference(value.strip())
            return cls(value.strip())
        hint = ""
        if isinstance(value, Mapping) and len(value) == 1:
            ((where, name),) = value.items()
            if where in ("env", "file") and isinstance(name, str) and name:
                return cls(env=name) if where == "env" else cls(file=name)
            hint = "" if where in ("env", "file") else did_you_mean(where, ("env", "file"))
        raise ConfigError(f"{_HOW}{hint}")

    @property
    def plain(self) -> bool:
        """Whether the text itself was given, rather than where to find it."""
        return bool(self._text) and not self.env and not self.file

    @property
    def is_loopback_url(self) -> bool:
        """Whether it is the URL of a service on this machine, without a login."""
        return _LOOPBACK.fullmatch(self._text) is not None

    def fetched(self, environment: Mapping[str, str] = os.environ) -> Secret:
        """Return the secret with its text, or raise ConfigError naming what is missing."""
        if self._text or not self:
            return self
        text = self._in_variable(environment) if self.env else self._in_file()
        return Secret(text, env=self.env, file=self.file)

    def _in_variable(self, environment: Mapping[str, str]) -> str:
        text = environment.get(self.env, "").strip()
        if text:
            return text
        if self._shown_env == HIDDEN:
            raise ConfigError(
                "is read from the variable that env names, which is not set (not shown: it does "
                "not look like a name); give the NAME of the variable, as in "
                f"{{env: SLACK_WEBHOOK}}, the value stays in the environment, {_OR_OFF}"
            )
        raise ConfigError(
            f"is read from the environment variable {self.env}, which is not set; "
            f"set it (export {self.env}=...), {_OR_OFF}"
        )

    def _in_file(self) -> str:
        try:
            text = Path(self.file).expanduser().read_text(encoding="utf-8").strip()
            wrong = "" if text else "is empty"
        except (OSError, ValueError, RuntimeError) as error:
            wrong = f"cannot be read: {getattr(error, 'strerror', None) or 'it is not text'}"
        if not wrong:
            return text
        if self._shown_file == HIDDEN:
            raise ConfigError(
                f"is in the file that file names, which {wrong} (not shown: it does not look like "
                "a path); give the PATH of the file, as in {file: /run/secrets/slack}, the value "
                f"stays in the file, {_OR_OFF}"
            )
        raise ConfigError(f"is in the file {self.file}, which {wrong}; put it there, {_OR_OFF}")

    @property
    def _shown_env(self) -> str:
        return self.env if not self.env or _VARIABLE.fullmatch(self.env) else HIDDEN

    @property
    def _shown_file(self) -> str:
        in_folder = "/" in self.file or os.sep in self.file
        likely = in_folder or len(self.file) <= _MAX_FILE_NAME
        return self.file if likely and not _ADDRESS.match(self.file) else HIDDEN

    def reveal(self) -> str:
        """Return the text. The caller must not print, store or raise it."""
        return self._text

    def hide_in(self, text: str) -> str:
        """Return a text without the secret or, if it is a URL, any piece that reveals it."""
        return hide(parts_of(self._text), text, fragments_of(self._text))

    def spelt(self) -> object:
        """Return the secret as klarm.yaml would contain it, without its text."""
        if self.env:
            return {"env": self._shown_env}
        if self.file:
            return {"file": self._shown_file}
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
        if not self:
            return "<no secret>"
        return f"<secret {self._shown_env or (self.file and self._shown_file) or HIDDEN}>"

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, _: object) -> Secret:
        return self

    def __reduce__(self) -> tuple[object, ...]:
        return _named, (
            self.env,
            self.file,
            self.lost or self.plain,
        )  # a pickle says where to find the secret and does not contain it


def _named(env: str, file: str, lost: bool = False) -> Secret:
    return Secret(env=env, file=file, lost=lost)


def _refuse_reference(text: str) -> None:
    """Raise ConfigError for a text such as ${SLACK_WEBHOOK}, which klarm does not expand."""
    found = _REFERENCE.fullmatch(text)
    if found is None:
        return
    name = next(name for name in found.groups() if name)
    # A password may look like this, too, so only an obvious variable name is shown.
    named = name if "_" in name and _VARIABLE.fullmatch(name) else "NAME"
    raise ConfigError(f"looks like a reference to an environment variable: write {{env: {named}}}")


def shown(address: str) -> str:
    """Return a URL that is safe to show: without path, query and password.

    >>> shown("https://hooks.slack.com/services/T0/B0/x")
    'https://hooks.slack.com/…'
    """
    try:
        parts = urlsplit(address)
        port = f":{parts.port}" if parts.port else ""
        return f"{parts.scheme}://{parts.hostname}{port}/{HIDDEN}"
    except ValueError:
        return HIDDEN


def shown_name(name: object) -> str:
    """Return a key that is safe to show: a user may have written a secret there by mistake.

    >>> shown_name("webhook-url"), shown_name("bot_token:xoxb-12"), shown_name("k7Qz/9vXw+Lm2")
    ('webhook-url', 'bot_token…', '…')
    """
    text = str(name)
    if "://" in text and ":" not in text.partition("://")[0]:
        return shown(text)
    key = re.match(r"[A-Za-z_][\w.-]*", text)
    safe = key[0] if key is not None and len(key[0]) <= _MAX_KEY else ""
    return safe if safe == text else safe * text.startswith(f"{safe}:") + "…"
