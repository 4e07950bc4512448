"""The section `channels`: names, types, layers, and errors that help."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import klarm
from cases import over
from klarm.channels import CHANNELS, channel_kind
from klarm.channels.discord import DiscordChannel
from klarm.channels.slack import SlackChannel
from klarm.config.layers import load
from klarm.settings.fields import ConfigError

HOOK = "https://hooks.slack.com/services/T0/B0/secret"


def write(text: str) -> None:
    Path("klarm.yaml").write_text(text)


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLACK_WEBHOOK", HOOK)


def test_every_type_is_the_name_of_its_file() -> None:
    """And of its class, as the catalogue has it."""
    for type_, name in CHANNELS.items():
        kind = channel_kind(type_)
        assert (kind.type, kind.__name__) == (type_, name)


def test_a_channel_is_made_from_its_section(hook: None) -> None:
    """With a name of the user's, its type and its route."""
    write(
        "channels:\n"
        "  team: {type: slack, webhook_url: {env: SLACK_WEBHOOK}, severity: critical,\n"
        "         signals: [kl, reward], runs: 'grpo-*', timeout_seconds: 3}\n"
        "  desktop:\n"
    )
    team, desktop = load().channels()
    assert isinstance(team.channel, SlackChannel)
    assert (team.channel.name, team.channel.timeout_seconds) == ("team", 3.0)
    assert team.channel.webhook_url.reveal() == HOOK
    assert (team.severity, team.signals, team.runs) == ("critical", ("kl", "reward"), ("grpo-*",))
    assert desktop.channel.type == desktop.channel.name == "desktop"


def test_a_channel_that_is_off_needs_no_secret() -> None:
    """It is not made at all."""
    write("channels: {slack: {enabled: false, webhook_url: {env: NOT_THERE}}}")
    assert load().channels() == []


def test_layers_meet_in_one_channel() -> None:
    """The file names the type, the environment the secret, a keyword the severity."""
    write("channels: {my-team: {type: discord, severity: critical}}")
    config = load(
        environment={
            "KLARM_CHANNELS__MY_TEAM__WEBHOOK_URL": "https://discord.com/api/webhooks/1/x"
        },
        overrides={"channels": {"my-team": {"severity": "warning"}}},
    )
    (route,) = config.channels()
    assert isinstance(route.channel, DiscordChannel)
    assert route.severity == "warning"
    assert config.as_dict()["channels"]["my-team"]["webhook_url"] == {  # type: ignore[index]
        "env": "KLARM_CHANNELS__MY_TEAM__WEBHOOK_URL"
    }


def test_the_environment_alone_is_enough() -> None:
    """For the simplest case, without any file."""
    (route,) = load(environment={"KLARM_CHANNELS__SLACK__WEBHOOK_URL": HOOK}).channels()
    assert isinstance(route.channel, SlackChannel)
    assert route.channel.webhook_url.reveal() == HOOK


@over(
    "text, message",
    [
        (
            "channels: {team: {type: slak}}",
            "klarm.yaml: channels.team.type 'slak' is unknown; did you mean slack?",
        ),
        (
            "channels: {slak: {webhook_url: x}}",
            "klarm.yaml: channels.slak needs a type; did you mean slack?",
        ),
        (
            "channels: {team: {severity: critical}}",
            "klarm.yaml: channels.team needs a type; known: slack, discord, email,",
        ),
        (
            "channels: {slack: {webhok_url: x}}",
            "klarm.yaml: channels.slack.webhok_url is unknown; did you mean webhook_url?",
        ),
        (
            "channels: {slack: {severity: crit}}",
            "klarm.yaml: channels.slack.severity must be 'warning' or 'critical', got 'crit'",
        ),
        (
            "channels: {slack: {signals: [rewards]}}",
            "klarm.yaml: channels.slack.signals 'rewards' is unknown; did you mean reward?",
        ),
        (
            "channels: {slack: {runs: 7}}",
            "klarm.yaml: channels.slack.runs must be text or a list of text, got 7",
        ),
        ("channels: {team: }", "klarm.yaml: channels.team needs a type; known: slack,"),
        ("channels: {slack: secret-x}", "klarm.yaml: channels.slack must be a section, as in"),
        ("channels: secret-x", "klarm.yaml: channels must be a section"),
        ("channels: {7: {type: slack}}", "klarm.yaml: channels: 7 cannot be the name of a channel"),
        (
            "channels: {slack: {webhook_url: 123123}}",
            "klarm.yaml: channels.slack.webhook_url must be {env: NAME}, {file: PATH} or text",
        ),
        (
            "channels: {slack: {webhook_url: {environment: secret-x}}}",
            "channels.slack.webhook_url must be {env: NAME}, {file: PATH} or text",
        ),
        ("chanels: {}", "klarm.yaml: chanels is unknown; did you mean channels?"),
    ],
)
def test_a_wrong_section_is_refused_by_name(text: str, message: str) -> None:
    """With the nearest right spelling, and without a value that may be secret."""
    write(text)
    with pytest.raises(ConfigError) as refusal:
        load(environment={})
    assert message in str(refusal.value)
    assert "secret-x" not in str(refusal.value)
    assert "123123" not in str(refusal.value)


@over(
    "variable, message",
    [
        ("KLARM_CHANNELS__SLACK", "must be KLARM_CHANNELS__<NAME>__<SETTING>"),
        ("KLARM_CHANNELS_SLACK_WEBHOOK_URL", "must be KLARM_CHANNELS__<NAME>__<SETTING>"),
        ("KLARM_CHANNELS__SLACK__WEBHOK_URL", "channels.slack.webhok_url is unknown; did you"),
        ("KLARM_CHANNELS__SLAK__WEBHOOK_URL", "channels.slak needs a type; did you mean slack?"),
        ("KLARM_CHANEL__SLACK__WEBHOOK_URL", "no section 'chanel'; did you mean channels?"),
    ],
)
def test_a_wrong_variable_is_refused(variable: str, message: str) -> None:
    """By its name; its value is not shown."""
    with pytest.raises(ConfigError) as refusal:
        load(environment={variable: "secret-x"})
    assert message in str(refusal.value)
    assert "secret-x" not in str(refusal.value)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            "{env: NOT_THERE}",
            "klarm.yaml: channels.slack.webhook_url is read from the environment variable "
            "NOT_THERE, which is not set; set it (export NOT_THERE=...), or switch the channel off "
            "(enabled: false)",
        ),
        (
            "{file: /not/there}",
            "klarm.yaml: channels.slack.webhook_url is in the file /not/there, which cannot be "
            "read: No such file or directory; put it there, or switch the channel off",
        ),
        (
            "{file: empty}",
            "klarm.yaml: channels.slack.webhook_url is in the file empty, which is empty; put it",
        ),
        ("{file: binary}", "is in the file binary, which cannot be read: it is not text"),
    ],
)
def test_a_missing_secret_is_reported_at_the_start(source: str, message: str) -> None:
    """Not at night, when it is needed."""
    Path("empty").write_text("\n")
    Path("binary").write_bytes(b"\xff\xfe\xff")
    write(f"channels: {{slack: {{webhook_url: {source}}}}}")
    with pytest.raises(ConfigError) as refusal:
        klarm.init("a")
    assert message in str(refusal.value)


@pytest.mark.parametrize(
    ("environment", "overrides", "expected"),
    [
        (
            {},
            {"email": {"password": {"env": "NOT_THERE"}}},
            "klarm.yaml, klarm.init(): channels.email.password is read from the environment",
        ),
        ({}, {"email": {"ca_file": "/none"}}, "klarm.yaml, klarm.init(): channels.email.ca_file"),
        (
            {"KLARM_CHANNELS__EMAIL__USERNAME": "ann"},
            {},
            "klarm.yaml, environment: KLARM_CHANNELS__EMAIL__USERNAME: channels.email needs",
        ),
        ({}, {"slack": None}, "klarm.init(): channels.slack needs webhook_url"),
    ],
)
def test_a_channel_that_cannot_be_made_is_reported_with_its_sources(
    environment: dict[str, str], overrides: dict[str, Any], expected: str
) -> None:
    """All that named settings of it: the mistake may stand in any."""
    write("channels: {email: {host: mail.example.org, sender: a@b.org, recipients: a@b.org}}")
    config = load(environment=environment, overrides={"channels": overrides})
    with pytest.raises(ConfigError) as refusal:
        config.channels()
    assert str(refusal.value).startswith(expected)


def test_a_secret_in_a_file_may_end_in_a_line_break() -> None:
    """As editors leave it."""
    Path("hook").write_text(HOOK + "\n")
    write("channels: {slack: {webhook_url: {file: hook}}}")
    (route,) = load().channels()
    assert route.channel.webhook_url.reveal() == HOOK  # type: ignore[attr-defined]


def test_recorded_channels_are_not_taken_up() -> None:
    """A replay tells nobody."""
    recorded = load(overrides={"channels": {"slack": {"webhook_url": HOOK}}}).as_dict()
    assert load(recorded=recorded).channels() == []
