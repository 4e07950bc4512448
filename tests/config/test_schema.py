"""The JSON Schema of klarm.yaml takes what klarm takes, and refuses what klarm refuses."""

from __future__ import annotations

from pathlib import Path

import jsonschema_rs
import pytest
import yaml

from cases import over
from klarm import ConfigError
from klarm.cli.init import default_yaml
from klarm.config import json_schema, load
from own_parts import GOOD, PACKAGE, install

DOCS = Path(__file__).parents[2] / "docs"
SCHEMA = json_schema()

RIGHT = [
    "",
    "kl_explosion:\n",
    "run: a\ngpus: 8\nkl_explosion: {sigma_multiplier: 5, baseline_mode: frozen}",
    "metrics: {kl: {key: my/kl, kind: reference_k1}, reward: my/reward}",
    "channels: {slack: {webhook_url: {env: SLACK_WEBHOOK}}}",
    "channels: {team: {type: slack, webhook_url: {file: /run/x}, severity: critical, signals: kl}}",
    "channels: {slack: {type: webhook, url: 'https://example.org/x', signals: [kl, loss]}}",
    "disabled: true",
]
WRONG = [
    "colour: red",
    "gpus: -1",
    "gpus: many",
    "console: 7",
    "deliver: there",
    "kl_explosion: 5",
    "kl_explosion: {sigma_multplier: 4.0}",
    "kl_explosion: {sigma_multiplier: 0}",
    "kl_explosion: {baseline_mode: frozn}",
    "metrics: {kll: my/kl}",
    "metrics: {kl: {keys: my/kl}}",
    "channels: {team: {webhook_url: x}}",
    "channels: {team: {type: slak}}",
    "channels: {slack: {webhook: x}}",
    "channels: {slack: {severity: bad}}",
    "channels: {team: {type: slack, url: x}}",
    "channels: {slack: {webhook_url: {environment: X}}}",
]


def is_right_by_schema(text: str, schema: dict[str, object] = SCHEMA) -> bool:
    return jsonschema_rs.Draft7Validator(schema).is_valid(yaml.safe_load(text))


def is_right_by_klarm(text: str) -> bool:
    Path("klarm.yaml").write_text(text)
    try:
        load()
    except ConfigError:
        return False
    return True


def test_it_is_a_schema() -> None:
    """By the rules of JSON Schema."""
    assert jsonschema_rs.meta.is_valid(SCHEMA)


@over("text", RIGHT)
def test_what_klarm_takes_is_right(text: str) -> None:
    """An editor marks nothing."""
    assert is_right_by_klarm(text)
    assert is_right_by_schema(text)


@over("text", WRONG)
def test_what_klarm_refuses_is_wrong(text: str) -> None:
    """An editor marks it."""
    assert not is_right_by_klarm(text)
    assert not is_right_by_schema(text)


@pytest.mark.parametrize(
    ("text", "is_right"),
    [
        ("channels: {void: }", True),
        ("channels: {void: {severity: critical}}", True),
        ("channels: {team: {type: void, timeout_seconds: 5}}", True),
        ("channels: {void: {type: slack, webhook_url: {env: SLACK_WEBHOOK}}}", True),
        ("channels: {void: {webhook_url: x}}", False),
        ("channels: {team: {type: void, timeout_seconds: 0}}", False),
        ("channels: {team: {type: voyd}}", False),
        ("channels: {broken: {}}", False),
        ("channels: {team: {type: broken}}", False),
    ],
)
def test_channels_of_packages_are_right_unless_they_are_broken(
    site: None, text: str, is_right: bool
) -> None:
    """They have their settings, like klarm's own."""
    install("late_package", PACKAGE, f"{GOOD}    broken = late_package:NoChannel\n")
    assert is_right_by_klarm(text) == is_right
    assert is_right_by_schema(text, json_schema()) == is_right


def test_the_defaults_and_the_examples_of_the_docs_are_right() -> None:
    """Every block of YAML that the pages show."""
    assert is_right_by_schema(default_yaml())
    blocks = [
        (page, block.partition("\n```")[0])
        for page in DOCS.rglob("*.md")
        for block in page.read_text().split("```yaml\n")[1:]
    ]
    assert len(blocks) > 10
    for page, block in blocks:
        assert is_right_by_schema(block), f"klarm refuses this YAML of {page}:\n{block}"


def test_settings_are_explained_with_default_and_limits() -> None:
    """For whoever hovers over one."""
    sigma = SCHEMA["properties"]["kl_explosion"]["properties"]["sigma_multiplier"]  # type: ignore[index]
    assert sigma["description"]
    assert (sigma["type"], sigma["default"], sigma["exclusiveMinimum"]) == ("number", 3.0, 0)
