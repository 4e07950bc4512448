"""Where a secret stands: named rightly, misspelt, or given away by mistake."""

from __future__ import annotations

from typing import Any

import pytest

from cases import over
from klarm.config.layers import load
from klarm.settings.fields import ConfigError
from klarm.settings.secret import Secret


@over(
    "channel, expected",
    [
        (
            {"slack": {"webhook_url": {"env": "http://127.0.0.1:9101/services/xyzzy99"}}},
            "channels.slack.webhook_url is read from the variable that env names, which is not set "
            "(not shown: it does not look like a name); give the NAME of the variable",
        ),
        ({"pagerduty": {"routing_key": {"env": "PDROUTINGKEYxyzzy123"}}}, "that env names"),
        ({"pagerduty": {"routing_key": {"env": "0a1b2c3d4e5f6a7b8c9dxyzzy0f0a1b"}}}, "env names"),
        ({"pagerduty": {"routing_key": {"env": "R013ABCDEFGHIJKLMNOPQRSTUVWXYZZY"}}}, "env names"),
        (
            {"slack": {"webhook_url": {"file": "http://127.0.0.1:9101/services/xyzzy99"}}},
            "channels.slack.webhook_url is in the file that file names, which cannot be read: No "
            "such file or directory (not shown: it does not look like a path); give the PATH",
        ),
        ({"slack": {"webhook_url": {"file": "hooks.slack.com/services/xyzzy"}}}, "file names"),
        ({"pagerduty": {"routing_key": {"file": "0a1b2c3d4e5f6a7b8c9dxyzzy0f0a1b"}}}, "file names"),
    ],
)
def test_a_secret_where_its_name_belongs_is_not_shown(
    channel: dict[str, Any], expected: str
) -> None:
    """Neither when it is not found, nor in the record of a channel that is off."""
    config = load(overrides={"channels": channel})
    with pytest.raises(ConfigError) as refusal:
        config.channels()
    assert expected in str(refusal.value)
    seen = str(refusal.value) + str(config.as_dict()) + repr(config)
    assert "xyzzy" not in seen.lower()


@over(
    "where, seen",
    [
        ({"env": "SLACK_WEBHOOK"}, "SLACK_WEBHOOK"),
        ({"env": "TOKEN2"}, "TOKEN2"),
        ({"file": "~/secrets/slack-webhook-of-the-team"}, "~/secrets/slack-webhook-of-the-team"),
        ({"file": "./slack"}, "./slack"),
        ({"file": "slack.txt"}, "slack.txt"),
    ],
)
def test_a_name_that_looks_like_one_is_shown(where: dict[str, str], seen: str) -> None:
    """Whoever mends it must know which it is."""
    secret = Secret.as_setting(where)
    assert secret.spelt() == where
    assert repr(secret) == f"<secret {seen}>"
    with pytest.raises(ConfigError, match=seen):
        secret.fetched({})


@over(
    "given, expected",
    [
        ("$SLACK_WEBHOOK", "write {env: SLACK_WEBHOOK}"),
        ("${SLACK_WEBHOOK}", "write {env: SLACK_WEBHOOK}"),
        ("env:SLACK_WEBHOOK", "write {env: SLACK_WEBHOOK}"),
        ("env: SLACK_WEBHOOK", "write {env: SLACK_WEBHOOK}"),
        ("$XYZZY", "write {env: NAME}"),
        ("${xyzzy}", "write {env: NAME}"),
        ({"evn": "xyzzy"}, "did you mean env?"),
        ({"flie": "xyzzy"}, "did you mean file?"),
        ({"env": 7}, "must be {env: NAME}, {file: PATH} or text (what was given is not shown)"),
    ],
)
def test_a_misspelt_reference_is_answered_with_how_to_write_it(
    given: object, expected: str
) -> None:
    """What may be a password is not repeated."""
    with pytest.raises(ConfigError) as refusal:
        load(overrides={"channels": {"slack": {"webhook_url": given}}})
    assert str(refusal.value).startswith("klarm.init(): channels.slack.webhook_url ")
    assert expected in str(refusal.value)
    assert "xyzzy" not in str(refusal.value).lower()


@over("password", ["$x7Kq", "pa$WORD", "$", "env", "$ABC-1"])
def test_a_password_may_hold_a_dollar_sign(password: str) -> None:
    """It is text unless it is the name of a variable and nothing else."""
    assert Secret.as_setting(password).reveal() == password
