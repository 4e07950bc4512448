"""Every secret setting, every answer of a service, every output: no secret is found anywhere.

Channels, their settings and the commands are taken from their catalogues, so a new one joins by
itself. One that cannot be set up by what is known here fails with what is missing.
"""

from __future__ import annotations

import base64
import contextlib
import json
import logging
import string
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import klarm
from channels.conftest import Service, reply
from faults.every_channel import (
    SECRETS,
    EchoingMail,
    called,
    every_call,
    planted,
    service,
    setups,
    smtp,
)
from klarm.channels import CHANNELS, channel_kind
from klarm.channels.base import Channel, NotDelivered
from klarm.channels.message import Message
from klarm.config.layers import TOP_LEVEL, load
from klarm.settings import ConfigError, Secret, settings_of

__all__ = ["service", "smtp"]

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of apprise
TELLING = 8  # characters in a row that must not be seen


def all_planted() -> list[str]:
    return [*(secret for held in SECRETS.values() for secret in held), planted("login")]


def visible(text: str) -> list[str]:
    """Return the secrets that a text gives away: in part, in hexadecimal, in base64."""
    lower = text.lower()
    bare = "".join(text.split()).replace("\\n", "")
    hexadecimal = "".join(c for c in lower.replace("0x", "") if c in string.hexdigits)
    return [s for s in all_planted() if _is_in(s, lower, bare, hexadecimal)]


def _is_in(secret: str, lower: str, bare: str, hexadecimal: str) -> bool:
    grams = [secret[i : i + TELLING] for i in range(len(secret) - TELLING + 1)]
    if any(gram.lower() in lower or gram.encode().hex() in hexadecimal for gram in grams):
        return True
    for shift in range(3):
        coded = base64.b64encode(b"\0" * shift + secret.encode()).decode()[4 * (shift > 0) : -4]
        if any(coded[i : i + 12] in bare for i in range(len(coded) - 11)):
            return True
    return False


FORMS: dict[str, Callable[[str], str]] = {
    "whole": str,
    "first half": lambda s: f"{s[:12]}***",
    "last eight": lambda s: f"...{s[-8:]}",
    "shouted": str.upper,
    "hex": lambda s: s.encode().hex(),
    "hex with colons": lambda s: s.encode().hex(":"),
    "base64": lambda s: base64.b64encode(f"user:{s}".encode()).decode(),
    "wrapped base64": lambda s: base64.encodebytes(f"Authorization: {s}\n".encode() * 3).decode(),
}


USUAL = ("whole", "hex", "wrapped base64")  # what stands for the others in `make test`

Form = Callable[[str], str]
Answer = Callable[[Any], object]


def echo(form: Form, name: str) -> str:
    return "; ".join(map(form, SECRETS[name]))


def by_name(answer: Callable[[str], Answer]) -> Answer:
    """Return an answer that knows which service it plays: the first part of the path."""
    return lambda handler: answer(handler.path.split("/")[1])(handler)


def refusal(status: int, *forms: Form) -> Answer:
    def of(name: str) -> Answer:
        text = "; ".join(f"no such hook: {echo(form, name)}" for form in forms)
        return reply(status, text.encode(), Location=" ".join(text.split())[:60])

    return by_name(of)


def garbled(form: Form) -> Answer:
    def of(name: str) -> Answer:
        line = " ".join(echo(form, name).split())
        return lambda handler: handler.wfile.write(f"HTTP/1.1 {line}\r\n\r\n".encode())

    return by_name(of)


def mistake(status: int, form: Form) -> Answer:
    return by_name(
        lambda name: reply(
            status, {"ok": False, "error": echo(form, name), "errors": [echo(form, name)]}
        )
    )


def as_ids(form: Form, which: int) -> Answer:
    """Return an answer that is taken for good, with a secret wherever an id is looked for."""
    ids = ("ts", "channel", "id", "message", "dedup_key", "status", "upload_url", "file_id")

    def of(name: str) -> Answer:
        secret = form((SECRETS[name] * 9)[which])
        return reply(200, {"ok": True, **dict.fromkeys(ids, secret)})

    return by_name(of)


def answers(form: Form) -> Iterator[Answer]:
    """Yield what a service may answer, with its secrets in it."""
    for status in (200, 302, 400, 403, 404, 410, 429, 500):
        yield refusal(status, form)
    yield mistake(200, form)
    yield mistake(400, form)
    yield garbled(form)
    for which in range(3):
        yield as_ids(form, which)


@pytest.mark.parametrize(
    "form",
    [
        pytest.param(form, id=name, marks=[] if name in USUAL else pytest.mark.slow)
        for name, form in FORMS.items()
    ],
)
def test_no_answer_brings_a_secret_into_a_receipt_or_a_reason(  # noqa: PLR0917
    form: Form,
    service: Service,
    smtp: int,
    message: Message,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Every channel with every answer, sent directly."""
    caplog.set_level(logging.DEBUG)
    plain = msgspec.structs.replace(message, curve=[])  # drawing takes its time
    config = load(overrides={"channels": setups(service.url, smtp)})
    channels: list[Channel] = [route.channel for route in config.channels()]
    assert {channel.type for channel in channels} == set(CHANNELS)
    EchoingMail.text = echo(form, "email-0")
    tried = 0
    for answer in answers(form):
        service.answers[:] = [answer]
        EchoingMail.refuses = b"MAIL" if tried % 2 else b"AUTH"
        for channel in channels:
            tried += 1
            try:
                output = json.dumps(channel.send(plain, {}))
            except NotDelivered as failed:
                output = "".join(traceback.format_exception(failed)) + str(failed.__dict__)
            assert visible(output) == []
    assert tried > 100
    streams = capfd.readouterr()
    assert visible(streams.out + streams.err + caplog.text) == []


def test_a_token_that_no_header_can_hold_is_refused_at_the_start(
    service: Service, smtp: int, message: Message
) -> None:
    """Otherwise no message of the channel would be delivered, and nobody would know before."""
    plain = msgspec.structs.replace(message, curve=[])
    service.always(200, {"ok": True})
    refused, sent = set(), set()
    for section in setups(service.url, smtp).values():
        known = settings_of(channel_kind(section["type"]))
        tokens = [n for n in section if n in known and known[n].kind is Secret]
        for setting in (token for token in tokens if not token.endswith("url")):
            place = f"{section['type']}.{setting}"
            given = {**section, setting: f"{section[setting]}ключ"}
            try:
                (route,) = load(overrides={"channels": {"x": given}}).channels()
            except ConfigError:
                refused.add(place)
                continue
            service.calls.clear()
            with contextlib.suppress(NotDelivered):
                route.channel.send(plain, {})
            assert service.calls, (
                f"nothing was sent: add self._check_ascii({setting!r}) to `_check` of "
                f"channels/{section['type']}.py"
            )
            sent.add(place)
    assert {"webhook.bearer_token", "slack.bot_token", "email.password"} <= refused
    assert {"pagerduty.routing_key", "webhook.signing_key"} <= sent  # neither is in a header


def everything_written() -> str:
    files = [path for path in Path().rglob("*") if path.is_file() and path.name != "klarm.yaml"]
    return "".join(path.read_text(errors="replace") for path in files)


@pytest.mark.parametrize("kind", ["refused", "taken"])
def test_no_output_of_a_run_or_a_command_shows_a_secret(
    kind: str, service: Service, smtp: int, capfd: pytest.CaptureFixture[str]
) -> None:
    """Journal, deliveries, commands, console and every command, over a real incident."""
    forms = list(FORMS.values())
    if kind == "refused":
        service.answers[:] = [refusal(400, *forms)]
    else:
        service.answers[:] = [as_ids(form, i) for i, form in enumerate(forms)]
    channels = setups(service.url, smtp)
    EchoingMail.text = "; ".join(echo(form, "email-0") for form in forms)
    settings = {
        "channels": channels,
        "url": f"https://me:{planted('login')}@example.org/runs/7b",
    }
    Path("klarm.yaml").write_text(json.dumps(settings))
    monitor = klarm.init("a")
    monitor.log({"kl": float("nan")})
    monitor.finish(timeout=4.0)
    assert "deliveries.jsonl" in {path.name for path in Path("klarm_runs/a").iterdir()}
    assert set(settings) <= {*TOP_LEVEL, "channels"}
    for arguments in every_call():
        called(*arguments)
    streams = capfd.readouterr()
    assert "not delivered" in streams.out  # commands did say something
    assert visible(streams.out + streams.err) == []
    assert visible(everything_written()) == []


def test_no_address_that_is_recorded_may_contain_a_login(service: Service, smtp: int) -> None:
    """The journal would show it: an address is recorded unless it is a secret."""
    tried = set()
    for section in setups(service.url, smtp).values():
        known = settings_of(channel_kind(section["type"]))
        for setting, value in section.items():
            if setting not in known or known[setting].kind is Secret:
                continue
            if not str(value).startswith("http"):
                continue
            login = {**section, setting: str(value).replace("://", f"://ann:{planted('login')}@")}
            refused = True
            with contextlib.suppress(ConfigError):
                load(overrides={"channels": {"x": login}}).channels()
                refused = False
            assert refused, (
                f"add check_url(self.{setting}, {setting!r}) to `_check` of "
                f"channels/{section['type']}.py"
            )
            tried.add(f"{section['type']}.{setting}")
    assert "slack.api_url" in tried
