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

from klarm.settings.redact import HIDDEN, hide, parts_of

SECRET = 's3cr€t/"&x'


@pytest.mark.parametrize(
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
