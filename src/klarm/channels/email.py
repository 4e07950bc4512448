"""E-mail over SMTP: plain text and HTML with the curve, one thread per incident."""

from __future__ import annotations

import html
import smtplib
import socket
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formataddr, formatdate, make_msgid, parseaddr
from typing import ClassVar

from klarm.channels.base import Channel, NotDelivered, Receipt
from klarm.channels.curve import FILE_NAME, curve_png
from klarm.channels.http import why
from klarm.channels.message import Message
from klarm.channels.sockets import NotResolvedError, connector, end_by, tls_context
from klarm.channels.text import one_line
from klarm.settings import MIN_PIECE, ConfigError, Names, Secret, as_given, hide, setting

_PORTS = {"starttls": 587, "tls": 465, "none": 25}
_MAX_SUBJECT = 200
_COLOURS = {"warning": "#d98e04", "critical": "#c62828", "good": "#2e7d32"}


@dataclass(kw_only=True, repr=False)
class EmailChannel(Channel):
    """Sends mail through a server. Later mails about an incident are replies to the first."""

    type: ClassVar[str] = "email"

    host: str = setting("", "the mail server")
    port: int = setting(0, "port (0: 587, 465 or 25, depending on security)", at_least=0)
    security: str = setting(
        "starttls", "how the connection is encrypted", choices=("starttls", "tls", "none")
    )
    username: str = setting("", "name to log in with; empty: no login")
    password: Secret = setting(Secret(), "its password")
    sender: str = setting("", "address the mail comes from")
    recipients: Names = setting(Names(), "addresses it goes to")
    ca_file: str = setting("", "certificates to trust instead of the system's")

    def _check(self) -> None:
        for name in ("host", "sender", "recipients"):
            if not getattr(self, name):
                raise ConfigError(f".{name} must be set")
        for address in (self.sender, *self.recipients):
            if "@" not in parseaddr(address)[1] or not address.isprintable():
                raise ConfigError(f": {as_given(address)} is not a mail address")
        if bool(self.username) != bool(self.password):
            raise ConfigError(" needs username and password, or neither")
        self._check_ascii("username", "password")
        if self.ca_file:
            try:
                tls_context(self.ca_file)
            except (OSError, ssl.SSLError):
                raise ConfigError(
                    f".ca_file {as_given(self.ca_file)} contains no certificates"
                ) from None

    def send(self, message: Message, earlier: Mapping[str, str]) -> Receipt:
        """Send the message, as a reply to the earlier one if there is one."""
        mail = compose(message, self.sender, self.recipients, earlier.get("message_id", ""))
        failure = None
        try:
            refused = self._hand_over(mail)
        except (OSError, ValueError, smtplib.SMTPException) as error:
            failure = self._failure(error)
        if failure is not None:  # raised here, so that it does not refer to errors of smtplib
            raise failure
        receipt = {"message_id": earlier.get("message_id") or str(mail["Message-ID"])}
        if refused:
            receipt["refused"] = ", ".join(refused)
        return receipt

    def _hand_over(self, mail: EmailMessage) -> Mapping[str, object]:
        ends = time.monotonic() + self.timeout_seconds
        context = tls_context(self.ca_file) if self.security != "none" else None
        address = (self.host, self._port)
        with _Conversation(address, ends, context if self.security == "tls" else None) as server:
            if self.security == "starttls":
                server.ehlo_or_helo_if_needed()
                if not server.has_extn("starttls"):
                    raise smtplib.SMTPNotSupportedError(
                        "it does not offer STARTTLS, so nothing is sent (security: none would send "
                        "unencrypted)"
                    )
                server.starttls(context=context)
                end_by(server.sock, ends)
            if self.username:
                server.login(self.username, self.password.reveal())
            return server.send_message(mail)

    @property
    def _port(self) -> int:
        return self.port or _PORTS[self.security]

    @property
    def _where(self) -> str:
        return f"{self.host}:{self._port}"

    def _failure(self, error: Exception) -> NotDelivered:
        if isinstance(error, smtplib.SMTPRecipientsRefused):
            return self._refusal("every recipient", *worst(error.recipients))
        if isinstance(error, smtplib.SMTPResponseException):
            login = isinstance(error, smtplib.SMTPAuthenticationError)
            what = "the login (check username, password)" if login else "the mail"
            return self._refusal(what, error.smtp_code, error.smtp_error)
        if isinstance(error, smtplib.SMTPNotSupportedError):
            return self.not_delivered(f"{self._where}: {error}{self._remedy()}", retry=False)
        # smtplib reports every other error as a disconnect of the server.
        cause = error.__context__ if isinstance(error, smtplib.SMTPException) else error
        said = why(cause) if isinstance(cause, Exception) else "the connection broke"
        return self.not_delivered(f"{self._where}: {said}{self._remedy(cause)}", retry=True)

    def _remedy(self, cause: object = None) -> str:
        """Return what to check: ports and encryption are often mixed up."""
        if isinstance(cause, ssl.SSLCertVerificationError):
            return "; for a certificate authority of your own, set ca_file"
        if isinstance(cause, socket.gaierror | NotResolvedError):
            return "; check host"
        return f"; with security {self.security}: port 587 goes with starttls, 465 with tls"

    def _refusal(self, what: str, code: int, said: bytes | str) -> NotDelivered:
        text = said.decode("utf-8", "replace") if isinstance(said, bytes) else said
        if len(self.username) >= MIN_PIECE:  # not a secret, but private
            text = hide({self.username}, text)
        # 4xx is temporary, 5xx permanent (RFC 5321); other codes are not from a mail server.
        return self.not_delivered(
            f"{self._where} refused {what}: {code} {text}", retry=not 500 <= code < 600
        )


class _Conversation(smtplib.SMTP):
    """An SMTP session with a deadline, encrypted from the start if there is a context."""

    def __init__(
        self, address: tuple[str, int], ends: float, context: ssl.SSLContext | None
    ) -> None:
        self._ends, self._context = ends, context
        # Without a name, smtplib would ask the resolver, which may take long.
        name = socket.gethostname()
        plain = name.isascii() and name.replace("-", "").replace(".", "").isalnum()
        super().__init__(*address, local_hostname=name if plain else "localhost")

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:  # noqa: ARG002
        sock = connector(self._ends)((host, port))
        if self._context is not None:
            sock = self._context.wrap_socket(sock, server_hostname=host)
            end_by(sock, self._ends)
        return sock

    def __exit__(self, *_: object) -> None:
        """Close without QUIT: the server has accepted the mail by now, or has not."""
        self.close()


def worst(refused: Mapping[str, tuple[int, bytes]]) -> tuple[int, bytes]:
    """Return a refusal that a retry may overcome, if there is one; otherwise any."""
    return min(refused.values(), key=lambda refusal: refusal[0])


def compose(
    message: Message, sender: str, recipients: tuple[str, ...], answer_to: str = ""
) -> EmailMessage:
    """Return a message as a mail. Text in headers is limited to one line."""
    mail = EmailMessage(policy=SMTP)
    mail["Subject"] = one_line(f"[klarm] {message.title}", _MAX_SUBJECT)
    mail["From"] = formataddr(parseaddr(sender))
    mail["To"] = ", ".join(formataddr(parseaddr(address)) for address in recipients)
    mail["Date"] = formatdate()
    domain = parseaddr(sender)[1].rpartition("@")[2]
    mail["Message-ID"] = make_msgid("klarm", domain=domain)
    if message.message_id:  # mail programs show a mail once even if it was sent twice
        mail.replace_header("Message-ID", f"<{message.message_id}.klarm@{domain}>")
    mail["Auto-Submitted"] = "auto-generated"  # prevents out-of-office replies (RFC 3834)
    if answer_to:
        mail["In-Reply-To"] = mail["References"] = one_line(answer_to)
    mail.set_content(f"{message.title}\n\n{message.body}\n")
    image = curve_png(message)
    name = make_msgid("curve", domain="klarm.invalid") if image is not None else ""
    mail.add_alternative(_page(message, name.strip("<>")), subtype="html")
    if image is not None:
        page = mail.get_payload()[1]  # type: ignore[index]
        page.add_related(  # type: ignore[union-attr]
            image, "image", "png", cid=name, filename=FILE_NAME, disposition="inline"
        )
    return mail


def _page(message: Message, image: str) -> str:
    rows = "".join(
        '<tr><td style="padding:2px 12px 2px 0;color:#666;vertical-align:top">'
        f"{html.escape(name)}</td><td>{html.escape(value)}</td></tr>"
        for name, value in message.fields.items()
    )
    drawn = message.drawn  # with its range, also below a picture
    parts = [
        f'<h3 style="border-left:5px solid {_COLOURS[message.mood]};padding-left:8px">'
        f"{html.escape(message.title)}</h3>",
        f"<p>{html.escape(message.summary or message.body)}</p>",
        f'<p><img src="cid:{image}" alt="{html.escape(drawn)}" style="max-width:100%"></p>'
        if image
        else "",
        f'<p style="font-family:monospace">{html.escape(drawn)}</p>' if drawn else "",
        f'<table style="font-size:14px">{rows}</table>' if rows else "",
        f'<p><a href="{html.escape(message.link)}">{html.escape(message.link)}</a></p>'
        if message.link.startswith(("http://", "https://"))
        else "",
    ]
    return f'<html><body style="font-family:sans-serif">{"".join(parts)}</body></html>\n'
