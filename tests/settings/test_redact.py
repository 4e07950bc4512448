"""Redaction: a secret is found in a text however it is spelt, and other words stay.

`tests/channels/test_secrets.py` plants secrets in whole channels; here are the two functions alone.
"""

from __future__ import annotations

import base64
import html
import json
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import over
from klarm.settings.redact import HIDDEN, fragments_of, hide, parts_of

SECRET = 's3cr€t/"&x'


@over(
    "spelt",
    [
        SECRET,
        SECRET.upper(),
        quote(SECRET, safe=""),
        json.dumps(SECRET)[1:-1],
        html.escape(SECRET),
        base64.b64encode(f"user:{SECRET}".encode()).decode(),
    ],
)
def test_every_spelling_is_hidden(spelt: str) -> None:
    """As it is, shouted, escaped, quoted and in base64."""
    assert hide({SECRET}, f"bad login {spelt} (401)") == f"bad login {HIDDEN} (401)"


@given(st.text(max_size=50))
def test_without_a_secret_a_text_stays_as_it_is(text: str) -> None:
    """Whatever it is."""
    assert hide(set(), text) == text


@given(st.text("abcdefXYZ0189", min_size=6, max_size=20), st.text(max_size=30))
def test_no_text_shows_the_secret(secret: str, around: str) -> None:
    """Wherever it stands."""
    assert secret not in hide({secret}, f"{around}{secret}{around}").replace(around, "")


def test_each_telling_piece_of_an_address_is_a_part() -> None:
    """Path, query, password; neither the host nor common words."""
    parts = parts_of("https://me:pw@hooks.example.org/services/T0AB/x9Yz?token=q7Rt")
    assert {"T0AB", "x9Yz", "q7Rt", "pw"} <= parts
    assert not {"services", "token", "hooks.example.org", "https"} & parts


def test_a_token_is_one_part_and_nothing_has_none() -> None:
    """A secret that is no address is not taken to pieces."""
    assert parts_of("xoxb-12/34") == {"xoxb-12/34"}
    assert parts_of("") == set()


@pytest.mark.parametrize(
    "address", ["http://127.0.0.1:9999", "http://localhost:9999/", "HTTPS://a.org"]
)
def test_a_host_alone_is_no_secret(address: str) -> None:
    """A message about a service that does not answer must name it."""
    said = f"{address}: it refused the connection"
    assert hide(parts_of(address), said, fragments_of(address)) == said
    assert "pw" not in hide(parts_of("http://me:pw@localhost"), "http://me:pw@localhost")


LONG = "k7Qz9vXwLm2pR8tYc4Bn"


def coded(form: str, content: str) -> str:
    data = content.encode()
    return {
        "hex": data.hex(),
        "HEX": data.hex().upper(),
        "spaced": data.hex(" "),
        "colons": data.hex(":"),
        "percent": "".join(f"%{byte:02x}" for byte in data),
        "escaped": "".join(f"\\x{byte:02x}" for byte in data),
        "listed": ", ".join(f"0x{byte:02x}" for byte in data),
        "wrapped": base64.encodebytes(data * 5).decode(),
        "wrapped short": "\n".join(
            base64.b64encode(data).decode()[i : i + 10] for i in range(0, 40, 10)
        ),
        "wrapped in JSON": json.dumps(base64.encodebytes(data * 5).decode()),
        "unpadded": base64.urlsafe_b64encode(data).decode().rstrip("="),
    }[form]


FORMS = [
    *("hex", "HEX", "spaced", "colons", "percent", "escaped", "listed"),
    *("wrapped", "wrapped short", "wrapped in JSON", "unpadded"),
]


@over("form", FORMS)
@over("content", ["{}", "Bearer {}", "u:{}", "{} and more"])
def test_no_code_shows_it(form: str, content: str) -> None:
    """Hexadecimal and base64, however they are broken into lines; what is around stays."""
    said = coded(form, content.format(LONG))
    hidden = hide({LONG}, f"bad header {said} (401)", {LONG})
    assert HIDDEN in hidden
    for at in range(len(LONG) - 8):
        piece = LONG[at : at + 8].encode()
        assert piece.hex() not in "".join(c for c in hidden.lower() if c in "0123456789abcdef")
        assert base64.b64encode(piece + b"x").decode()[:10] not in hidden
    assert hidden.startswith("bad header ")
    assert hidden.endswith(" (401)")


@pytest.mark.parametrize("shown", [LONG[:8], LONG[-8:], LONG[5:15], LONG[:12].upper()])
def test_a_part_of_it_is_hidden_too(shown: str) -> None:
    """Services cut what they repeat, or put stars in place of the rest."""
    for said in (f"{shown}***", f"...{shown}", shown.encode().hex()):
        assert shown.lower() not in hide({LONG}, f"no {said} here", {LONG}).lower()
        assert HIDDEN in hide({LONG}, f"no {said} here", {LONG})


def test_of_an_address_words_and_host_are_no_fragments() -> None:
    """A message must still say which service it was."""
    address = (
        f"https://hooks.example.org/services/workflows/{LONG}?thread_id=1234567890&tok={LONG[::-1]}"
    )
    assert fragments_of(address) == {LONG, "1234567890", LONG[::-1]}
    said = "https://hooks.example.org answered: no such services, workflows or thread_id"
    assert hide(parts_of(address), said, fragments_of(address)) == said


def test_a_letter_that_is_like_an_ascii_one_in_lower_case_is_not_base64() -> None:
    """The dotted capital I of Turkish, and the Kelvin sign."""
    secret = "s3cr3t-t0ken"
    said = "\u0130 \u212a c3VjaCBhcw=="
    assert hide(parts_of(secret), said, fragments_of(secret)) == said


@given(st.text(max_size=200), st.text(st.characters(codec="utf-8"), max_size=30))
def test_any_text_and_any_secret_are_survived(text: str, secret: str) -> None:
    """Whatever a service answers."""
    hide(parts_of(secret), text, fragments_of(secret))
