"""Every channel and every command, taken from their catalogues, for tests that go through all.

A channel that cannot be set up by what is known here fails with what is missing.
"""

from __future__ import annotations

import contextlib
import json
import random
import string
import sys
import threading
from collections.abc import Iterator
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import Any, ClassVar

import pytest

from channels.conftest import Service, reply, serve
from klarm import cli
from klarm.channels import CHANNELS, channel_kind
from klarm.cli.group import klarm as command
from klarm.config.layers import load
from klarm.settings import Secret, settings_of


def planted(place: str) -> str:
    """Return a secret of its own for a place."""
    return "".join(random.Random(place).choices(string.ascii_letters + string.digits, k=24))


# What channels need besides their secrets, by the name of a setting. {url} is a server that echoes.
NEEDED: dict[str, object] = {
    "api_url": "{url}",
    "host": "127.0.0.1",
    "port": "{smtp}",
    "security": "none",
    "username": "annabel",
    "sender": "a@example.org",
    "recipients": ["b@example.org"],
    "channel": "C1",
}
SCHEMES = {"apprise": "json"}


# What each channel holds, by its name: what a service of its may know.
SECRETS: dict[str, list[str]] = {}


def value_of(type_: str, setting: str, name: str, url: str, smtp: int) -> object:
    """Return what to set a setting to, or None to leave it as it is."""
    declared = settings_of(channel_kind(type_))[setting]
    secret = planted(f"{name}.{setting}")
    if declared.kind is Secret:
        address = url.replace("http", SCHEMES.get(type_, "http"))
        return f"{address}/{name}/hooks/{secret}" if setting.endswith("url") else secret
    if declared.private:
        return json.dumps({"text": "$title", "token": secret})
    needed = NEEDED.get(setting)
    return {"{url}": f"{url}/{name}", "{smtp}": smtp}.get(str(needed), needed)


def setups(url: str, smtp: int) -> dict[str, dict[str, Any]]:
    """Return every type with all of its secrets, or with one at a time where all do not go."""
    found: dict[str, dict[str, Any]] = {}
    for type_ in CHANNELS:
        known = settings_of(channel_kind(type_))
        secret = [name for name in known if known[name].kind is Secret]
        variants = [secret] if fits(type_, section_of(type_, type_, secret, url, smtp)) else []
        for number, kept in enumerate(variants or [[name] for name in secret]):
            name = f"{type_}-{number}"
            found[name] = section_of(type_, name, kept, url, smtp)
            assert fits(type_, found[name]), (
                f"add what a {type_} channel requires to NEEDED in {__file__}"
            )
            outside = [
                n
                for n, declared in known.items()
                if str(declared.default).startswith("http") and n not in found[name]
            ]
            assert not outside, (
                f"a {type_} channel would call the real service: add {outside} to NEEDED"
            )
            held = [n for n in known if n in kept or known[n].private]
            SECRETS[name] = [planted(f"{name}.{setting}") for setting in held]
    return found


def section_of(type_: str, name: str, secret: list[str], url: str, smtp: int) -> dict[str, Any]:
    known = settings_of(channel_kind(type_))
    wanted = [n for n in known if n in secret or known[n].kind is not Secret]
    given = {n: value_of(type_, n, name, url, smtp) for n in wanted}
    given = {name: value for name, value in given.items() if value is not None}
    return {"type": type_, **given, "timeout_seconds": 2.0}


def fits(type_: str, values: dict[str, Any]) -> bool:
    section = {"channels": {"x": {"type": type_, **values}}}
    with contextlib.suppress(ValueError):
        load(overrides=section).channels()
        return True
    return False


class EchoingMail(StreamRequestHandler):
    """A mail server that refuses with all it has heard, at the login or at the mail."""

    text = ""
    refuses = b"AUTH"
    heard: ClassVar[list[bytes]] = []

    def handle(self) -> None:
        self.wfile.write(b"220 here\r\n")
        for line in self.rfile:
            type(self).heard.append(line)
            line_of_text = " ".join(type(self).text.split())[:400].encode()
            line = line.upper()  # noqa: PLW2901
            if line.startswith(b"EHLO"):
                self.wfile.write(b"250-here\r\n250 AUTH PLAIN\r\n")
            elif line.startswith(type(self).refuses):
                self.wfile.write(b"535 " + line_of_text + b"\r\n")
            elif line.startswith(b"DATA"):
                self.wfile.write(b"354 go on\r\n")
                while (part := self.rfile.readline()) not in (b".\r\n", b""):
                    type(self).heard.append(part)
                self.wfile.write(b"250 fine\r\n")
            else:
                self.wfile.write(b"235 fine\r\n" if line.startswith(b"AUTH") else b"250 fine\r\n")


@pytest.fixture
def smtp() -> Iterator[int]:
    ThreadingTCPServer.daemon_threads = True
    server = ThreadingTCPServer(("127.0.0.1", 0), EchoingMail)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    played = Service([reply(200)])
    server = serve(played)
    yield played
    server.shutdown()
    server.server_close()


# How commands are called that need more than the name of a run; `serve` would never end.
CALLS: dict[str, list[list[str]]] = {
    "ack": [["1", "--run", "a"]],
    "close": [["1", "--run", "a"]],
    "silence": [["kl", "--for", "2h", "--run", "a"], ["kl", "--off", "--run", "a"]],
    "deliver": [["klarm_runs", "--timeout", "1"], ["klarm_runs", "--again", "--timeout", "1"]],
    "replay": [["klarm_runs/a"], ["klarm_runs/a", "--format", "json"]],
    "follow": [["klarm_runs/a/journal.jsonl", "--once"]],
    "serve": [["klarm_runs", "--host", "192.0.2.1"]],
    "test-alert": [[]],
    "incidents": [["a"], ["klarm_runs/a"]],
    "init": [["klarm.yaml"], ["other.yaml"]],
    "runs": [[], ["klarm_runs"], ["--format", "json"]],
    "show": [["a"], ["a", "1"], ["klarm_runs/a", "1"]],
    "prune": [[], ["klarm_runs", "--older-than", "1d", "--yes"]],
}


def every_call() -> Iterator[list[str]]:
    """Yield the arguments of each command, also of one that nobody has described here."""
    for name in command.commands:
        if name != "demo":  # which shows nothing but what comes with klarm
            for arguments in CALLS.get(name, [[], ["a"], ["--help"]]):
                yield [name, *arguments]


def called(*arguments: str) -> None:
    """Run a command as the shell does; how it ends is not the matter here."""
    before = sys.argv
    sys.argv = ["klarm", *arguments]
    try:
        cli.main()
    except SystemExit:
        pass
    finally:
        sys.argv = before
