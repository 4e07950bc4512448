"""Secrets: read where they stand, used, and never shown.

`tests/channels/test_secrets.py` and `test_secret_names.py` have them in channels.
"""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import pytest

from klarm.settings.fields import ConfigError
from klarm.settings.secret import Secret, shown, shown_name


def test_a_secret_is_fetched_from_a_variable_or_a_file() -> None:
    """Without the line break that editors leave there."""
    Path("token").write_text("x9Yz\n")
    assert Secret.as_setting({"env": "TOKEN"}).fetched({"TOKEN": " x9Yz "}).reveal() == "x9Yz"
    assert Secret.as_setting({"file": "token"}).fetched({}).reveal() == "x9Yz"
    assert Secret.as_setting(" x9Yz ").fetched({}).reveal() == "x9Yz"


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"env": "TOKEN"}, "is read from the environment variable TOKEN, which is not set"),
        ({"file": "missing"}, "is in the file missing, which cannot be read"),
        ({"file": "empty"}, "is in the file empty, which is empty"),
    ],
    ids=str,
)
def test_what_is_not_there_is_said_by_name(given: dict[str, str], complaint: str) -> None:
    """With what to do."""
    Path("empty").touch()
    with pytest.raises(ConfigError, match=complaint) as refused:
        Secret.as_setting(given).fetched({})
    assert "switch the channel off" in str(refused.value)


@pytest.mark.parametrize("given", [3, {"evn": "TOKEN"}, {"env": "A", "file": "b"}, {"env": ""}])
def test_what_names_no_secret_is_refused_without_its_value(given: object) -> None:
    """It says which forms there are."""
    with pytest.raises(ConfigError, match=r"must be \{env: NAME\}, \{file: PATH\} or text"):
        Secret.as_setting(given)


def test_a_reference_as_shells_have_it_is_refused() -> None:
    """Nobody would fill it in."""
    with pytest.raises(ConfigError, match=r"write \{env: SLACK_WEBHOOK\}"):
        Secret.as_setting("${SLACK_WEBHOOK}")


def test_neither_repr_nor_file_nor_pickle_holds_the_text() -> None:
    """A pickle holds where it stands."""
    secret = Secret("x9Yz-secret", env="TOKEN")
    plain = Secret("x9Yz-secret")
    for text in (repr(secret), repr(plain), str(secret.spelt()), str(plain.spelt())):
        assert "x9Yz" not in text
    assert b"x9Yz" not in pickle.dumps(secret) + pickle.dumps(plain)
    assert pickle.loads(pickle.dumps(secret)).env == "TOKEN"
    assert pickle.loads(pickle.dumps(plain)).lost
    assert copy.deepcopy(plain).reveal() == "x9Yz-secret"


def test_no_secret_is_false_and_equal_ones_are_one() -> None:
    """By text and place."""
    assert not Secret()
    assert Secret(env="A")
    assert len({Secret("a"), Secret("a"), Secret("a", env="A")}) == 2


def test_addresses_and_keys_are_shown_without_what_may_be_secret() -> None:
    """Only scheme, host and port of one; only what looks like a key of the other."""
    assert shown("https://me:pw@a.org:8443/x9Yz?t=1") == "https://a.org:8443/…"
    assert shown_name("k7Qz/9vXw+Lm2") == "…"
