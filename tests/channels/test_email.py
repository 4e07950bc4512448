"""E-mail, through a real SMTP server on loopback."""

from __future__ import annotations

import re
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from html import unescape
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trustme
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult
from hypothesis import given
from hypothesis import strategies as st

from cases import over
from example_events import example_message
from klarm.channels.base import NotDelivered
from klarm.channels.email import EmailChannel, compose
from klarm.channels.message import Message
from klarm.settings.fields import ConfigError, Names
from klarm.settings.secret import Secret

# The server warns of logins without TLS, which are for loopback here.
pytestmark = pytest.mark.filterwarnings("ignore:Requiring AUTH while not requiring TLS")

PASSWORD = "smtp-pass-secret"


class Mailbox:
    """Takes mail, but not for everybody."""

    def __init__(self) -> None:
        self.mails: list[EmailMessage] = []
        self.recipients: list[str] = []

    async def handle_RCPT(  # noqa: N802
        self, server: Any, session: Any, envelope: Any, address: str, options: list[str]
    ) -> str:
        if address.startswith("nobody"):
            return "550 5.1.1 no such mailbox"
        if address.startswith("later"):
            return "450 4.2.0 greylisted, come again"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802
        self.mails.append(message_from_bytes(envelope.content, policy=default))  # type: ignore[arg-type]
        self.recipients += envelope.rcpt_tos
        return "250 taken"


def check_password(server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> Any:
    return AuthResult(success=data.password == PASSWORD.encode(), handled=False)


Start = Callable[..., tuple[Mailbox, dict[str, Any]]]


@pytest.fixture
def start(authority: trustme.CA, ca_file: Path) -> Iterator[Start]:
    """Start a mail server; return its mailbox and the settings to reach it."""
    running: list[Controller] = []

    def started(security: str, **options: Any) -> tuple[Mailbox, dict[str, Any]]:
        mailbox = Mailbox()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("localhost").configure_cert(context)
        if security == "starttls":
            options |= {"tls_context": context, "require_starttls": True}
        elif security == "tls":
            options["ssl_context"] = context
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        server = Controller(mailbox, hostname="127.0.0.1", port=port, **options)
        server.start()
        running.append(server)
        settings = {
            "host": "localhost",
            "port": port,
            "security": security,
            "sender": "klarm <klarm@example.org>",
            "recipients": Names(["ann@example.org", "bob@example.org"]),
            "ca_file": str(ca_file),
        }
        return mailbox, settings

    yield started
    for server in running:
        server.stop()


AUTH = {"authenticator": check_password, "auth_required": True, "auth_require_tls": False}
LOGIN = {"username": "klarm", "password": Secret(PASSWORD)}


def visible_text(page: str) -> str:
    """Return what a page shows: neither its tags nor their attributes, such as `alt`."""
    return unescape(re.sub(r"<[^>]*>", "", page))


@pytest.mark.parametrize("security", ["starttls", "tls", "none"])
def test_a_mail_arrives_however_the_connection_is_secured(
    start: Start, message: Message, security: str
) -> None:
    """As text, as a page and with the curve in it."""
    mailbox, settings = start(security, **AUTH)
    receipt = EmailChannel(name="mail", **settings, **LOGIN).send(message, {})
    (mail,) = mailbox.mails
    assert mailbox.recipients == ["ann@example.org", "bob@example.org"]
    assert mail["Subject"].strip().startswith("[klarm] grpo-7b: kl critical, began at step 148")
    assert mail["From"] == "klarm <klarm@example.org>"
    assert mail["Message-ID"] == receipt["message_id"]
    assert mail["Auto-Submitted"] == "auto-generated"
    text = mail.get_body(("plain",))
    page = mail.get_body(("related", "html"))
    assert text is not None
    assert page is not None
    assert message.body in text.get_content().replace("\r\n", "\n")
    html, image = page.iter_parts()
    assert image.get_content_type() == "image/png"
    assert f'src="cid:{image["Content-ID"].strip("<>")}"' in html.get_content()
    assert "updates that are too large" in html.get_content()
    assert message.drawn in visible_text(html.get_content())  # with the range of the curve


def test_what_follows_is_an_answer_to_the_first(start: Start, message: Message) -> None:
    """So mail programs keep an incident together."""
    mailbox, settings = start("none")
    channel = EmailChannel(name="mail", **settings)
    first = channel.send(message, {})
    assert channel.send(msgspec.structs.replace(message, event="escalated"), first) == first
    opened, escalated = mailbox.mails
    assert opened["In-Reply-To"] is None
    assert escalated["In-Reply-To"] == escalated["References"] == opened["Message-ID"]
    assert escalated["Message-ID"] != opened["Message-ID"]


def failure(settings: dict[str, Any], message: Message) -> NotDelivered:
    without_curve = msgspec.structs.replace(message, curve=[])  # a picture takes long to draw
    with pytest.raises(NotDelivered) as failed:
        EmailChannel(name="mail", **settings).send(without_curve, {})
    assert PASSWORD not in str(failed.value)
    return failed.value


def test_a_wrong_password_is_reported_and_not_tried_again(start: Start, message: Message) -> None:
    """Trying it again may lock the account."""
    mailbox, settings = start("starttls", **AUTH)
    wrong = {"username": "klarm", "password": Secret(PASSWORD + "-old")}
    failed = failure({**settings, **wrong}, message)
    assert failed.retry is False
    assert "refused the login (check username, password): 535" in failed.reason
    assert mailbox.mails == []


@pytest.mark.parametrize(("who", "retry"), [("nobody", False), ("later", True)])
def test_refused_by_all_is_a_failure(start: Start, message: Message, who: str, retry: bool) -> None:
    """A greylisted recipient is tried again, an unknown one is not."""
    _, settings = start("none")
    failed = failure({**settings, "recipients": Names([f"{who}@example.org"])}, message)
    assert failed.retry is retry
    assert "refused every recipient" in failed.reason


def test_refused_by_some_is_noted(start: Start, message: Message) -> None:
    """The others have it, and must not get it twice."""
    mailbox, settings = start("none")
    some = Names(["nobody@example.org", "ann@example.org"])
    receipt = EmailChannel(name="mail", **{**settings, "recipients": some}).send(message, {})
    assert receipt["refused"] == "nobody@example.org"
    assert mailbox.recipients == ["ann@example.org"]


def test_a_server_without_starttls_gets_nothing(start: Start, message: Message) -> None:
    """Neither the mail nor the password goes out in the clear unless it is configured so."""
    mailbox, settings = start("none", **AUTH)
    failed = failure({**settings, **LOGIN, "security": "starttls"}, message)
    assert failed.retry is False
    assert "not offer STARTTLS, so nothing is sent (security: none would send" in failed.reason
    assert mailbox.mails == []


@pytest.mark.parametrize("security", ["starttls", "tls"])
def test_a_certificate_nobody_vouches_for_is_refused(
    start: Start, message: Message, security: str
) -> None:
    """Nothing is sent there."""
    mailbox, settings = start(security)
    failed = failure({**settings, "ca_file": ""}, message)
    assert "certificate is not trusted" in failed.reason
    assert mailbox.mails == []


@pytest.fixture
def strange_server() -> Iterator[Callable[[bytes, bool], int]]:
    """Return a port where a server greets with a text, whole or byte by byte for ever."""
    over = threading.Event()
    listeners: list[socket.socket] = []

    def listen(greeting: bytes, drips: bool) -> int:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def talk() -> None:
            try:
                peer, _ = listener.accept()
                with peer:
                    peer.sendall(greeting)
                    while drips and not over.wait(0.01):
                        peer.sendall(b"x")
            except OSError:
                pass  # the client, or the test, had enough

        threading.Thread(target=talk, daemon=True).start()
        return int(listener.getsockname()[1])

    yield listen
    over.set()
    for listener in listeners:
        listener.close()


@pytest.mark.parametrize(
    ("greeting", "drips", "expected"),
    [
        (b"220-", True, "no answer in time"),
        (b"", False, "the connection broke"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", False, "refused the mail: -1"),
        (b"421 too busy\r\n", False, "421 too busy"),
    ],
)
def test_a_strange_server_is_worth_a_retry(
    strange_server: Callable[[bytes, bool], int],
    message: Message,
    greeting: bytes,
    drips: bool,
    expected: str,
) -> None:
    """And is left in time."""
    settings = {
        "host": "127.0.0.1",
        "port": strange_server(greeting, drips),
        "security": "none",
        "sender": "klarm@example.org",
        "recipients": Names(["ann@example.org"]),
        "timeout_seconds": 0.5 if drips else 20.0,
    }
    failed = failure(settings, message)
    assert failed.retry is True
    assert expected in failed.reason


@pytest.mark.parametrize("security", ["starttls", "tls"])
def test_a_server_that_cannot_be_reached_is_named_with_its_port(
    message: Message, security: str
) -> None:
    """And with the ports that go with each kind of encryption: they are often mixed up."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        settings = {
            "host": "127.0.0.1",
            "port": port,
            "security": security,
            "sender": "klarm@example.org",
            "recipients": Names(["ann@example.org"]),
        }
        failed = failure(settings, message)
    assert failed.reason == (
        f"127.0.0.1:{port}: it refused the connection; with security {security}: port 587 goes "
        "with starttls, 465 with tls"
    )


def test_encryption_that_does_not_go_with_the_port_is_reported(
    start: Start, message: Message
) -> None:
    """Whoever talks TLS to a server that waits for STARTTLS learns what to change."""
    _, settings = start("starttls")
    failed = failure({**settings, "security": "tls"}, message)
    assert f"localhost:{settings['port']}: TLS failed" in failed.reason
    assert "port 587 goes with starttls, 465 with tls" in failed.reason


def test_the_default_port_is_named_in_a_failure(message: Message) -> None:
    """It is the one of the encryption, which nobody sees in the file."""
    settings = {
        "host": "no-such-host.invalid",
        "sender": "klarm@example.org",
        "recipients": Names(["ann@example.org"]),
    }
    reason = failure(settings, message).reason
    assert reason == "no-such-host.invalid:587: its name cannot be resolved; check host"


@given(st.text(max_size=2000) | st.text("a\r\n:<>ä ", max_size=2000), st.text(max_size=300))
def test_no_text_becomes_a_header(title: str, value: str) -> None:
    """Nor a part of the page; and every line is short enough for mail servers."""
    message = example_message(
        title=title + "\r\nBcc: everybody@example.org",
        body=value,
        fields={"Peak": "<script>"},
        summary=value,
    )
    raw = compose(message, "k@example.org", ("a@example.org",)).as_bytes()
    mail = message_from_bytes(raw, policy=default)
    assert mail["Bcc"] is None
    assert set(mail.keys()) == {
        "Subject",
        "From",
        "To",
        "Date",
        "Message-ID",
        "Auto-Submitted",
        "MIME-Version",
        "Content-Type",
    }
    assert all(len(line) <= 998 for line in raw.split(b"\r\n"))
    assert b"<script>" not in raw


ENOUGH = {"host": "h", "sender": "a@b", "recipients": Names(["a@b"])}


@over(
    "settings, expected",
    [
        ({}, "channels.mail.host must be set"),
        ({"host": "h", "sender": "a@b"}, "channels.mail.recipients must be set"),
        (
            {"host": "h", "sender": "a@b", "recipients": Names(["bob"])},
            "channels.mail: 'bob' is not a mail address",
        ),
        (
            {"host": "h", "sender": "a@b\r\nBcc: c@d", "recipients": Names(["a@b"])},
            "is not a mail address",
        ),
        (
            {**ENOUGH, "username": "u"},
            "needs username and password, or neither",
        ),
        (
            {**ENOUGH, "username": "u", "password": Secret("pässword")},
            "channels.mail.password may contain only ASCII",
        ),
        (
            {**ENOUGH, "ca_file": "/none"},
            "channels.mail.ca_file '/none' contains no certificates",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(settings: dict[str, Any], expected: str) -> None:
    """Before training starts."""
    with pytest.raises(ConfigError, match=expected):
        EmailChannel(name="mail", **settings)
