"""A mail server that repeats what it was sent: name and password, as they are and encoded."""

from __future__ import annotations

import socket
import traceback
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult
from msgspec.structs import replace

import klarm
from klarm.channels.base import NotDelivered
from klarm.channels.email import EmailChannel
from klarm.channels.message import Message
from klarm.settings.fields import Names
from klarm.settings.secret import Secret

# The server warns of logins without TLS, which are for loopback here.
pytestmark = pytest.mark.filterwarnings("ignore:Requiring AUTH while not requiring TLS")

USER = "plantedUSER7"
PASSWORD = "pl@nted/PASS word+7"
PLAIN = f"\0{USER}\0{PASSWORD}".encode()
ECHOES = {
    "as it is": f"wrong password {PASSWORD} of {USER}",
    "in an address": f"see https://mail.example.org/?u={USER}&p={quote(PASSWORD, safe='')}",
    "in a form": f"u={USER}&p={quote_plus(PASSWORD)}",
    "AUTH PLAIN": f"bad command AUTH PLAIN {b64encode(PLAIN).decode()}",
    "AUTH LOGIN": f"{b64encode(USER.encode()).decode()} {b64encode(PASSWORD.encode()).decode()}",
    "base64 for addresses": f"t={urlsafe_b64encode(PLAIN).decode().rstrip('=')}",
}
# Whole, in every spelling of it, and the telling pieces.
TELLING = {PASSWORD, quote(PASSWORD, safe=""), quote_plus(PASSWORD), "PASS", USER} | {
    b64encode(text).decode().rstrip("=") for text in (PLAIN, PASSWORD.encode(), USER.encode())
}


class Echo:
    """Refuses where the test says so, with a text of the test's."""

    def __init__(self, stage: str, text: str) -> None:
        self.stage, self.text = stage, text

    def authenticate(self, server: Any, session: Any, envelope: Any, how: str, data: Any) -> Any:
        assert data.password.decode() == PASSWORD
        refusal = f"535 5.7.8 {self.text}"
        if self.stage == "login":
            return AuthResult(success=False, handled=False, message=refusal)
        return AuthResult(success=True)

    async def handle_RCPT(  # noqa: N802
        self, server: Any, session: Any, envelope: Any, address: str, options: list[str]
    ) -> str:
        if self.stage == "recipient":
            return f"550 5.7.1 {self.text}"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802
        return f"554 5.6.0 {self.text}"


Start = Callable[[Echo], dict[str, Any]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a server that refuses as it is told; return the settings to reach it."""
    running: list[Controller] = []

    def started(echo: Echo) -> dict[str, Any]:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        server = Controller(
            echo,
            hostname="127.0.0.1",
            port=port,
            authenticator=echo.authenticate,
            auth_required=True,
            auth_require_tls=False,
        )
        server.start()
        running.append(server)
        return {
            "host": "127.0.0.1",
            "port": port,
            "security": "none",
            "username": USER,
            "password": PASSWORD,
            "sender": "klarm@example.org",
            "recipients": ["ann@example.org"],
        }

    yield started
    for server in running:
        server.stop()


def found_in(text: str) -> list[str]:
    return [telling for telling in TELLING if telling in text]


def test_what_a_mail_server_repeats_of_the_login_is_not_shown(
    start: Start, message: Message
) -> None:
    """Neither name nor password; that it refused, and its code, are."""
    echo = Echo("", "")
    settings = start(echo)
    settings |= {"password": Secret(PASSWORD), "recipients": Names(settings["recipients"])}
    channel = EmailChannel(name="mail", **settings)
    without_curve = replace(message, curve=[])  # a picture takes long to draw
    for echo.stage, code in (("login", "535"), ("recipient", "550"), ("data", "554")):
        for how, echo.text in ECHOES.items():
            with pytest.raises(NotDelivered) as failed:
                channel.send(without_curve, {})
            assert found_in("".join(traceback.format_exception(failed.value))) == [], how
            assert f"127.0.0.1:{settings['port']} refused" in failed.value.reason
            assert code in failed.value.reason


def test_no_record_and_no_stream_holds_what_a_mail_server_repeats(
    start: Start, capfd: pytest.CaptureFixture[str]
) -> None:
    """A real incident, refused by the server with all of it."""
    settings = start(Echo("login", "; ".join(ECHOES.values())))
    with klarm.init("a", channels={"email": settings}) as monitor:
        monitor.log({"kl": float("nan")})
        monitor.finish(timeout=60.0)
    deliveries = Path("klarm_runs/a/deliveries.jsonl").read_text()
    assert '"outcome":"refused"' in deliveries
    streams = capfd.readouterr()
    assert "535" in streams.err
    assert found_in(deliveries + streams.out + streams.err) == []
    # The name is a setting, and recorded as such.
    assert set(found_in(Path("klarm_runs/a/journal.jsonl").read_text())) <= {USER}
