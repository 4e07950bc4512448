"""The section `channels`: names, types, layers, and errors that help."""

from __future__ import annotations

from pathlib import Path

import pytest

import klarm
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


def test_a_missing_secret_is_reported_at_the_start() -> None:
    """Not at night, when it is needed."""
    write("channels: {slack: {webhook_url: {env: NOT_THERE}}}")
    with pytest.raises(ConfigError, match=r"channels\.slack\.webhook_url .* NOT_THERE"):
        klarm.init("a")


def test_a_channel_that_cannot_be_made_is_reported_with_its_sources() -> None:
    """All that named settings of it: the mistake may stand in any."""
    write("channels: {email: {host: mail.example.org, sender: a@b.org, recipients: a@b.org}}")
    config = load(environment={"KLARM_CHANNELS__EMAIL__USERNAME": "ann"})
    sources = "klarm.yaml, environment: KLARM_CHANNELS__EMAIL__USERNAME: "
    with pytest.raises(ConfigError, match=f"^{sources}channels.email needs"):
        config.channels()


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
