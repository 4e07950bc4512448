"""Secrets are planted everywhere, and found nowhere."""

from __future__ import annotations

import base64
import copy
import html
import json
import pickle
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import pytest

import klarm
from cases import over
from channels.conftest import reply
from klarm.channels.base import Channel, NotDelivered
from klarm.channels.message import Message
from klarm.channels.slack import SlackChannel
from klarm.channels.webhook import WebhookChannel
from klarm.config.layers import Config, load
from klarm.settings.fields import ConfigError
from klarm.settings.secret import Secret, shown

# What must not be seen: of each secret the whole, and the telling part of an address.
PLANTED = {
    "slack_path": "SLACKPATHxyzzy",
    "slack_token": "xoxb-SLACKTOKENxyzzy",
    "discord": "DISCORDxyzzy",
    "smtp": "SMTPPASSxyzzy",
    "routing": "ROUTINGxyzzy",
    "hmac": "HMACKEYxyzzy",
    "bearer": "BEARERxyzzy",
    "webhook": "WEBHOOKxyzzy",
    "apprise": "APPRISExyzzy",
}


def channels(url: str) -> dict[str, Any]:
    """Return a section with every type of channel, all at one address."""
    port = int(url.rpartition(":")[2])
    return {
        "slack": {"webhook_url": f"{url}/services/T0/B0/{PLANTED['slack_path']}"},
        "bot": {
            "type": "slack",
            "bot_token": PLANTED["slack_token"],
            "channel": "C1",
            "api_url": url,
        },
        "discord": {"webhook_url": f"{url}/api/webhooks/1/{PLANTED['discord']}"},
        "email": {
            "host": "127.0.0.1",
            "port": port,
            "security": "none",
            "sender": "a@example.org",
            "recipients": "b@example.org",
            "username": "u",
            "password": PLANTED["smtp"],
            "timeout_seconds": 0.5,
        },
        "pagerduty": {"routing_key": PLANTED["routing"], "api_url": url},
        "webhook": {
            "url": f"{url}/in?key={PLANTED['webhook']}",
            "signing_key": PLANTED["hmac"],
            "bearer_token": PLANTED["bearer"],
        },
        "apprise": {"url": url.replace("http", "json") + f"/{PLANTED['apprise']}"},
    }


def found_in(text: str) -> list[str]:
    return [name for name, secret in PLANTED.items() if secret in text]


pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of apprise


@pytest.fixture
def config(service: Any) -> Config:
    return load(overrides={"channels": channels(service.url)})


def echo(handler: Any) -> None:
    """Answer with all that came in, as debugging servers do."""
    body = f"{handler.path}\n{handler.headers}\n".encode() + b"and the body was seen"
    handler.send_response(418)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def close(handler: Any) -> None:
    handler.close_connection = True


def garble(handler: Any) -> None:
    handler.wfile.write(f"HTTP/1.1 {handler.path}\r\n\r\n".encode())


@pytest.mark.parametrize("answer", [echo, close, garble])
def test_no_failure_tells_a_secret(  # noqa: PLR0917
    service: Any,
    config: Config,
    message: Message,
    answer: Any,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Neither what is raised, nor its traceback, nor a log, nor a stream."""
    caplog.set_level("DEBUG")
    service.answers[:] = [answer]
    routes = config.channels()
    assert len(routes) == 7
    for route in routes:
        with pytest.raises(NotDelivered) as failed:
            route.channel.send(message, {})
        assert failed.value.__context__ is None  # whose frames would hold addresses
        raised = "".join(traceback.format_exception(failed.value))
        assert found_in(raised + repr(failed.value) + str(failed.value.__dict__)) == []
        assert found_in(repr(route) + repr(route.channel) + str(route.channel)) == []
    streams = capfd.readouterr()
    assert found_in(streams.out + streams.err + caplog.text) == []


def test_neither_configuration_nor_journal_holds_a_secret(
    service: Any, config: Config, capfd: pytest.CaptureFixture[str]
) -> None:
    """In repr, in str, in what is recorded, on stderr."""
    assert found_in(repr(config) + str(config) + str(config.as_dict())) == []
    with klarm.init("a", channels=channels(service.url)) as monitor:
        monitor.log({"kl": 0.1})
    assert "webhook_url" in Path("klarm_runs/a/journal.jsonl").read_text()
    everything = [path.read_text() for path in Path().rglob("*") if path.is_file()]
    streams = capfd.readouterr()
    assert found_in("".join(everything) + streams.out + streams.err) == []


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [(echo, "refused"), (reply(200, {"ok": True, "ts": "1", "id": "2"}), "sent")],
)
def test_neither_deliveries_nor_what_is_said_of_them_hold_a_secret(
    service: Any, answer: Any, outcome: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """A real incident, delivered or refused by every channel, and recorded."""
    service.answers[:] = [answer]
    with klarm.init("a", channels=channels(service.url)) as monitor:
        monitor.log({"kl": float("nan")})
        wait_for(lambda: len(service.calls) >= 6 and f'"outcome":"{outcome}"' in deliveries())
        monitor.finish(timeout=0.5)  # the mail would be tried again
    everything = [path.read_text() for path in Path().rglob("*") if path.is_file()]
    streams = capfd.readouterr()
    assert found_in("".join(everything) + streams.out + streams.err) == []


def deliveries() -> str:
    path = Path("klarm_runs/a/deliveries.jsonl")
    return path.read_text() if path.exists() else ""


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds; a busy machine may take long."""
    deadline = time.monotonic() + 60
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert condition()


def test_plain_text_in_the_file_is_allowed_and_remarked_on_once(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """By its place, not by its value; a secret from elsewhere is not remarked on."""
    Path("klarm.yaml").write_text(
        f"channels: {{slack: {{webhook_url: 'https://hooks.slack.com/{PLANTED['slack_path']}'}}}}"
    )
    klarm.init("a")
    shown = capfd.readouterr().err
    assert shown.count("klarm.yaml: channels.slack.webhook_url is a secret in plain text") == 1
    assert "{env: NAME}" in shown
    assert found_in(shown) == []
    Path("klarm.yaml").unlink()
    klarm.init("b", channels={"slack": {"webhook_url": "https://hooks.slack.com/x"}})
    assert "plain text" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("url", "is_remarked_on"),
    [
        ("http://127.0.0.1:8000/", False),
        ("http://localhost:8000/hook", False),
        ("http://[::1]:8000/", False),
        ("http://127.0.0.1.example.org/", True),
        ("http://me:secret@localhost/", True),
        ("127.0.0.1", True),
        ("http://[half", True),
    ],
)
def test_the_url_of_a_service_on_this_machine_is_no_secret(
    url: str, is_remarked_on: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    """A first try with a webhook on loopback, as in the tutorial, needs no remark."""
    Path("klarm.yaml").write_text(f"channels: {{webhook: {{url: '{url}'}}}}\ndeliver: elsewhere")
    klarm.init("a")
    assert ("plain text" in capfd.readouterr().err) is is_remarked_on


def test_only_reveal_gives_a_secret_away() -> None:
    """Not printing it, formatting it, nor keeping a copy in a file."""
    secret = Secret("hunter2hunter2")
    assert secret.reveal() == "hunter2hunter2"
    assert "hunter2" not in f"{secret} {secret!r} {[secret]} {copy.copy(secret)}"
    assert copy.deepcopy(secret) == secret
    named = Secret("hunter2hunter2", env="NAME")
    assert b"hunter2" not in pickle.dumps([secret, named])
    assert pickle.loads(pickle.dumps(named)).env == "NAME"


@over(
    "secret, text",
    [
        ("p@ss word/x", "login with p%40ss%20word%2Fx failed, p@ss word/x"),
        ("https://host/a/SECRETxyzzy", "no such path /a/SECRETxyzzy on host"),
        ("https://host/in?key=SECRETxyzzy", "bad query key=SECRETxyzzy"),
        ("https://me:SECRETxyzzy@host/", "SECRETxyzzy is wrong"),
        ("tgram://SECRETxyzzy:SECRETxyzzy2/1234", "no bot SECRETxyzzy:SECRETxyzzy2"),
    ],
)
def test_parts_of_a_secret_are_hidden_too(secret: str, text: str) -> None:
    """Services quote what they were asked for."""
    hidden = Secret(secret).hide_in(text)
    assert "SECRETxyzzy" not in hidden
    assert "ss word" not in hidden
    assert "ss%20word" not in hidden


@pytest.mark.parametrize(
    ("address", "seen"),
    [
        ("https://hooks.slack.com/services/T/B/x", "https://hooks.slack.com/…"),
        ("https://user:pass@host:8443/x?y#z", "https://host:8443/…"),
        ("https://[::1", "…"),
    ],
)
def test_an_address_is_shown_without_what_is_secret(address: str, seen: str) -> None:
    """People see which service, and no more."""
    assert shown(address) == seen


@pytest.mark.parametrize(
    ("address", "echoed"),
    [
        ("https://a.org/hooks/TOPSECRET123?token=QSECRET456", "bad QSECRET456"),
        ("https://a.org/h?key=AKEYSECRET&token=BTOKENSECRET", "AKEYSECRET, BTOKENSECRET"),
        ("https://a.org/h/abc%20SECRET%2Fxyz", "abc SECRET/xyz"),
        ("https://a.org/workflows/abc;sig=SEMISECRET:1", "SEMISECRET"),
    ],
)
def test_no_piece_of_an_address_is_shown_that_a_service_repeats(address: str, echoed: str) -> None:
    """Neither a value of its query, nor a part after a semicolon, nor what quoting hid."""
    assert "SECRET" not in Secret(address).hide_in(f"the service said: {echoed}")


SHORT = "https://a.org/services/T0AB/B1CD7/x9Yz?token=q7Rt&thread_id=55#fr4G"


@over(
    "echoed",
    [
        "no x9Yz in B1CD7 of T0AB, q7Rt",
        "NO X9YZ IN B1CD7, Q7RT",
        "\\/services\\/T0AB\\/B1CD7\\/x9Yz",
        "services%2fT0AB%2fB1CD7%2fx9Yz%3ftoken%3dq7Rt",
        "/services/T0AB/B1CD7/x9Yz?token=q7Rt&amp;thread_id=55#fr4G",
    ],
)
def test_short_pieces_of_an_address_are_hidden_too(echoed: str) -> None:
    """However a service writes them."""
    hidden = Secret(SHORT).hide_in(f"the service said: {echoed}").lower()
    assert [piece for piece in ("t0ab", "b1cd7", "x9yz", "q7rt", "fr4g") if piece in hidden] == []


def test_the_words_of_an_address_are_no_secret() -> None:
    """What a service says would be hard to read without them."""
    for address, said in [
        (SHORT, "a.org: no such token; services are down, see thread_id"),
        ("https://hooks.example.org/hooks/api/v1/example", "hooks.example.org: the api is gone"),
        ("https://discord.com/api/webhooks/123456/x9Yz", "Unknown Webhook at discord.com"),
    ]:
        assert Secret(address).hide_in(said) == said


@over(
    "wrapped",
    [
        "{secret}",
        "Bearer {secret}",
        "user:{secret}",
        "x{secret}",
        "xy{secret} and more",
        "https://host/{secret}",
    ],
)
@over("secret", ["s3cr", "s3cret-with-\xfc-and-/", "xoxb-17-abcdef"])
def test_base64_hides_nothing(wrapped: str, secret: str) -> None:
    """A secret is found in it wherever it begins, and whatever is around it."""
    content = wrapped.format(secret=secret).encode()
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        coded = encode(content).decode()
        for echoed in (coded, coded.rstrip("="), quote(coded), f"auth={coded}"):
            hidden = Secret(secret).hide_in(f"bad header {echoed} in the request")
            assert coded[4:8] not in hidden
            assert hidden.endswith("in the request")


@pytest.mark.parametrize("secret", ['p"w<&>\\x', "p w+ü%", "k7Qz/9vXw+Lm2/pR8t"])
def test_what_is_escaped_is_hidden_too(secret: str) -> None:
    """In JSON, in a page, in an address."""
    for echoed in (
        json.dumps(secret),
        json.dumps(secret, ensure_ascii=False),
        html.escape(secret),
        quote(secret),
        quote_plus(secret).lower(),
        json.dumps(secret).replace("/", "\\/"),
    ):
        plain = echoed.strip('"')
        assert plain not in Secret(secret).hide_in(f"not {echoed} here")


@pytest.mark.parametrize("secret", ["xyzzy\nX-Other: 1", "xyzzy\udcff", "xyzzy\x00"])
def test_a_secret_that_is_no_line_of_text_is_refused_at_the_start(secret: str) -> None:
    """It could not be sent, and might break what it is sent in."""
    with pytest.raises(ConfigError, match="signing_key must be one line") as refusal:
        WebhookChannel(name="mine", url=Secret("https://a.org/x"), signing_key=Secret(secret))
    assert "xyzzy" not in str(refusal.value)


@pytest.mark.parametrize(
    ("kind", "settings", "setting"),
    [
        (WebhookChannel, {"url": Secret("https://a.org/x")}, "bearer_token"),
        (SlackChannel, {"channel": "C1"}, "bot_token"),
    ],
)
def test_a_token_that_no_header_takes_is_refused_at_the_start(
    kind: type[Channel], settings: dict[str, Any], setting: str
) -> None:
    """A header is ASCII."""
    with pytest.raises(
        ConfigError, match=f"channels.mine.{setting} may contain only ASCII"
    ) as refusal:
        kind(name="mine", **settings, **{setting: Secret("xyzzy-ü")})
    assert "xyzzy" not in str(refusal.value)


def test_a_short_password_in_an_address_is_hidden() -> None:
    """It is a secret as a whole, not a word of a path."""
    assert "x7" not in Secret("mailto://ann:x7@mail.example.org").hide_in("login x7 failed")


@over(
    "written",
    [
        "channels: {x: {type: slack, bot_token:%s}}",
        "channels: {x: {type: email, password:%s}}",
        "channels: {x: {type: '%s'}}",
        "channels: {x: {type: ['%s']}}",
        "channels: {slack: {severity: '%s'}}",
        "channels: {slack: {enabled: '%s'}}",
        "channels: {slack: {signals: ['%s', 7]}}",
        "channels: {email: {port: '%s'}}",
        "channels: {slack: {channel: {bot_token: '%s'}}}",
        "deliver: '%s'",
        "deliver: {slack: {webhook_url: '%s'}}",
        "incidents: '%s'",
        "kl_explosion: {sigma_multiplier: '%s'}",
        "gpus: {token: '%s'}",
        "metrics: {kl: ['%s']}",
    ],
)
def test_no_mistake_in_the_file_shows_a_secret(written: str) -> None:
    """Wherever it was put by mistake."""
    for secret in (
        "xoxb-1234567890-abcdefghijklmnopqrstuv",
        "https://hooks.example.org/T0/B0/s3cr3t",
    ):
        Path("klarm.yaml").write_text(written % secret)
        with pytest.raises(ConfigError) as failed:
            load().channels()
        assert "abcdefghij" not in str(failed.value)
        assert "s3cr3t" not in str(failed.value)
