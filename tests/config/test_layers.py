"""Configuration: four layers, and an error that helps for everything that is wrong."""

from __future__ import annotations

import re
from pathlib import Path
from typing import ClassVar

import pytest
import yaml

from cases import over
from klarm.cli.init import default_yaml
from klarm.config.layers import Config, load
from klarm.detectors import CATALOGUE
from klarm.metrics.kl_kind import Kind
from klarm.metrics.user_keys import UserKey
from klarm.settings.fields import ConfigError
from own_parts import PassRateDetector


def write(text: str, name: str = "klarm.yaml") -> Path:
    path = Path(name)
    path.write_text(text)
    return path


def kl(config: Config) -> dict[str, object]:
    return dict(config.sections["kl_explosion"])


def test_without_anything_every_setting_has_its_default() -> None:
    """And the detectors are made from them."""
    config = load(environment={})
    assert config.dir == "klarm_runs"
    assert kl(config) == {
        "enabled": True,
        "warmup_steps": 20,
        "sigma_multiplier": 3.0,
        "rolling_window": 100,
        "baseline_mode": "rolling",
        "clip_region": 0.2,
        "min_std": 1e-4,
        "confirm_steps": 50,
        "excusable": True,
        "resolve_after": 0,
    }
    assert config.sections["incidents"] == {
        "confirm_steps": 5,
        "resolve_after": 20,
        "accept_after": 200,
        "reopen_within": 100,
        "reopen_limit": 2,
        "reopen_factor": 3.0,
        "escalate_factor": 10.0,
        "escalate_later_factor": 3.0,
        "escalate_later_after": 50,
        "relapse_factor": 1.5,
    }
    assert [type(detector) for detector in config.detectors()] == list(CATALOGUE)


def test_the_specified_section_is_read() -> None:
    """Word for word as it stands in the specification."""
    write(
        "kl_explosion:\n  enabled: true\n  sigma_multiplier: 3.0 # warning at 3σ\n"
        "  rolling_window: 100\n  warmup_steps: 20\n  baseline_mode: rolling\n  clip_region: 0.2\n"
    )
    assert load(environment={}) == load(environment={}, recorded={})


def test_later_layers_win_setting_by_setting() -> None:
    """Defaults, file, environment, keywords; what a layer does not name stays."""
    write("kl_explosion: {sigma_multiplier: 4, rolling_window: 200, min_std: 1e-3}\nrun: from-file")
    environment = {"KLARM_KL_EXPLOSION__ROLLING_WINDOW": "300", "KLARM_RUN": "from-environment"}
    config = load(
        environment=environment,
        overrides={"kl_explosion": {"baseline_mode": "frozen"}, "dir": "elsewhere"},
    )
    assert kl(config) == {
        **kl(load(environment={}, recorded={})),
        "sigma_multiplier": 4.0,
        "rolling_window": 300,
        "min_std": 0.001,
        "baseline_mode": "frozen",
    }
    assert (config.run, config.dir) == ("from-environment", "elsewhere")
    detector = config.detectors()[0]
    assert detector.warmup_steps == 20


def test_the_environment_names_the_file() -> None:
    """KLARM_CONFIG is read in place of klarm.yaml."""
    write("run: here")
    write("run: other", "other.yaml")
    assert load(environment={"KLARM_CONFIG": "other.yaml"}).run == "other"
    assert load("other.yaml", environment={}).run == "other"


@pytest.mark.parametrize(
    ("spelt", "value"), [("true", True), ("No", False), ("0", False), ("on", True)]
)
def test_the_environment_spells_true_in_many_ways(spelt: str, value: bool) -> None:
    """As people do."""
    config = load(environment={"KLARM_KL_EXPLOSION__ENABLED": spelt})
    assert kl(config)["enabled"] is value


@over(
    "text, message",
    [
        (
            "kl_explosion: {sigma_multplier: 4}",
            "klarm.yaml: kl_explosion.sigma_multplier is unknown; did you mean sigma_multiplier?",
        ),
        (
            "kl_explosoin: {}",
            "klarm.yaml: kl_explosoin is unknown; did you mean kl_explosion?",
        ),
        (
            "colour: red",
            "klarm.yaml: colour is unknown; known: run, dir, console, console_alerts, "
            "framework, url, gpus, gpu_hour_price, deliver, disabled, metrics, channels, "
            "incidents and the names of detectors (`klarm detectors` lists them)",
        ),
        (
            "kl_explosion: {sigma_multiplier: lots}",
            "klarm.yaml: kl_explosion.sigma_multiplier must be a number, got 'lots'",
        ),
        (
            "kl_explosion: {sigma_multiplier: -1}",
            "klarm.yaml: kl_explosion.sigma_multiplier must be greater than 0, got -1",
        ),
        (
            "kl_explosion: {rolling_window: 0}",
            "klarm.yaml: kl_explosion.rolling_window must be at least 10, got 0",
        ),
        (
            "kl_explosion: {rolling_window: [1, 2]}",
            "klarm.yaml: kl_explosion.rolling_window must be a whole number, got a list",
        ),
        (
            "kl_explosion: {sigma_multiplier: .nan}",
            "klarm.yaml: kl_explosion.sigma_multiplier must be a finite number, got nan",
        ),
        (
            "kl_explosion: {baseline_mode: rollin}",
            "must be 'rolling' or 'frozen', got 'rollin'; did you mean rolling?",
        ),
        ("kl_explosion: 5", "klarm.yaml: kl_explosion must be a section (enabled, warmup_steps"),
        (
            "kl_explosion: off",
            "klarm.yaml: kl_explosion is a section; did you mean kl_explosion: {enabled: false}?",
        ),
        (
            "incidents: on",
            "klarm.yaml: incidents must be a section (confirm_steps, resolve_after, accept_after, ",
        ),
        ('dir: ""', "klarm.yaml: dir must name a folder, got ''"),
        ("run: 7", "klarm.yaml: run must be text (put it in quotes), got 7"),
        ("- a\n- b", "klarm.yaml: must contain `key: value` lines, got a list"),
        ("run: [broken", "klarm.yaml: line 1: not valid YAML"),
        (
            "run: a\n\tdir: b",
            "klarm.yaml: line 2: not valid YAML: a tab character; use spaces",
        ),
        (
            "kl_explosion:\n\tmin_std: 1",
            "klarm.yaml: line 2: not valid YAML: a tab character; use spaces",
        ),
        (
            "kl_explosion:\n  min_std: 1\n\t# a comment\n\tenabled: true",
            "klarm.yaml: line 3: not valid YAML: a tab character;",
        ),
        ("stage: a\nstage: b", "klarm.yaml: line 2: not valid YAML: stage is given twice"),
        ("run: a\nrun: b", "klarm.yaml: line 2: not valid YAML: run is given twice"),
        (
            "kl_explosion:\n  min_std: 1\n  min_std: 2",
            "klarm.yaml: line 3: not valid YAML: min_std is given twice",
        ),
        ("framework: trll", "klarm.yaml: framework 'trll' is unknown; did you mean trl?"),
        ("metrics: my/kl", "klarm.yaml: metrics must be a section (kl, kl_old, kl_rollout,"),
        ("metrics: {kll: a}", "klarm.yaml: metrics.kll is unknown; did you mean kl?"),
        ("metrics: {kl: 7}", "klarm.yaml: metrics.kl must be text, as in `kl: my/kl`, got 7"),
        ("metrics: {kl: {key: }}", "metrics.kl.key must be text, as in `kl: my/kl`, got None"),
        (
            "metrics: {kl: {}}",
            "klarm.yaml: metrics.kl must name a key, as in `kl: my/kl`, got a section",
        ),
        ("metrics: {kl: {keys: a}}", "metrics.kl.keys is unknown; did you mean key?"),
        (
            "metrics: {kl: {key: a, kind: refrence_k1}}",
            "klarm.yaml: metrics.kl.kind must be one of reference_k1, reference_k2, reference_k3,",
        ),
        (
            "metrics: {kl: {key: a, kind: refrence_k1}}",
            "got 'refrence_k1'; did you mean reference_k1?",
        ),
        (
            "metrics: {kl: {key: a, kind: old_k3}}",
            "metrics.kl.kind is 'old_k3', KL of the new policy to the one before the update, but "
            "kl is KL of the policy to the reference model: use metrics.kl_old, or a kind that "
            "begins with reference_",
        ),
        (
            "metrics: {reward: {key: a, kind: reference_k1}}",
            "metrics.reward.kind is not allowed: only kl, kl_old, kl_rollout have a kind",
        ),
        (
            "metrics: {kl: my/kl, kl_old: my/kl}",
            "metrics.kl and metrics.kl_old are both read from 'my/kl'",
        ),
        ("run: \x00", "klarm.yaml: not valid YAML"),
        (
            "run: 2024-13-45",
            "klarm.yaml: line 1: not valid YAML: a value that is not a valid number, date",
        ),
        (
            "run: a: b",
            "klarm.yaml: line 1: not valid YAML: mapping values are not allowed here",
        ),
        ("slack: {webhook_url: x}", "klarm.yaml: slack is a channel: put it under channels:"),
        ("team: {type: discord}", "klarm.yaml: team is a channel: put it under channels:"),
        ("[" * 5000, "klarm.yaml: not valid YAML"),
        (f"kl_explosion: {{min_std: {10**400}}}", "min_std must be a finite number, got 1000"),
    ],
)
def test_a_wrong_file_is_refused_by_name_key_and_value(text: str, message: str) -> None:
    """With the nearest right key where there is one."""
    write(text)
    with pytest.raises(ConfigError) as refusal:
        load(environment={})
    assert message in str(refusal.value)


@over(
    "text, expected",
    [
        ("password: !xyzzy88 x", "an unknown tag (!...); text that begins with one of"),
        ("password: !xyzzy!88 x", "an unknown tag (!...)"),
        ("password: !<xyzzy x", "expected '>', but found ' '; text that begins with one of ! *"),
        ("password: !!int xyzzy", "a value that is not a valid number, date"),
        ("password: !!bool xyzzy", "a value that is not a valid number, date"),
        ("password: !!timestamp xyzzy", "a value that is not a valid number, date"),
        ("webhook_url: *xyzzy99", "an unknown alias (*...); text that begins with one of"),
        ("webhook_url: *xyzzy.99", "text that begins with one of ! * & @ % ` must be in quotes"),
        ("password: @xyzzy", "found character '@' that cannot start any token; text that begins"),
        ("password: %xyzzy", "found character '%' that cannot start any token; text that begins"),
        ("password: `xyzzy", "found character '`' that cannot start any token; text that begins"),
        ("https://xyzzy.org/a: 1\nhttps://xyzzy.org/a: 2", "a key is given twice"),
    ],
)
def test_a_mistake_in_yaml_is_reported_without_the_text_there(text: str, expected: str) -> None:
    """It may be a password: where it is, of what kind, and what to do."""
    lines = text.replace("\n", "\n    ")
    write(f"channels:\n  email:\n    {lines}\n")
    with pytest.raises(ConfigError) as refusal:
        load(environment={})
    assert re.match(r"klarm\.yaml: line [34]: not valid YAML: ", str(refusal.value))
    assert expected in str(refusal.value)
    assert "xyzzy" not in str(refusal.value)


@over(
    "text",
    [
        "https://xyzzy.org/services/x",
        "[https://xyzzy.org/services/x]",
        "channels: {slack: {https://xyzzy.org/services/x}}",
        "channels: {https://xyzzy.org/services/x: }",
        "channels: {slack: {type: https://xyzzy.org/services/x}}",
        "https://xyzzy.org/services/x: 1",
    ],
)
def test_an_address_in_the_wrong_place_is_not_shown(text: str) -> None:
    """A key or a type may be a webhook's address by mistake."""
    write(text)
    with pytest.raises(ConfigError, match=r"^klarm\.yaml: ") as refusal:
        load(environment={})
    assert "/services/x" not in str(refusal.value)


@over(
    "variable, text, message",
    [
        (
            "KLARM_SLACK__WEBHOOK_URL",
            "x",
            "environment: KLARM_SLACK__WEBHOOK_URL: slack is a channel: use "
            "KLARM_CHANNELS__SLACK__WEBHOOK_URL",
        ),
        (
            "KLARM_KL_EXPLOSION__SIGMA_MULTPLIER",
            "4",
            "KLARM_KL_EXPLOSION__SIGMA_MULTPLIER: kl_explosion.sigma_multplier is unknown; did you",
        ),
        ("KLARM_KL_EXPLOSIN__MIN_STD", "4", "no section 'kl_explosin'; did you mean kl_explosion?"),
        (
            "KLARM_KL_EXPLOSION__ROLLING_WINDOW",
            "many",
            "kl_explosion.rolling_window must be a whole number, got 'many'",
        ),
        ("KLARM_KL_EXPLOSION__ENABLED", "maybe", "must be true or false, got 'maybe'"),
        ("KLARM_DIRS", "x", "KLARM_DIRS is unknown; did you mean KLARM_DIR?"),
        ("KLARM_CONFG", "x", "KLARM_CONFG is unknown; did you mean KLARM_CONFIG?"),
        (
            "KLARM_KL_EXPLOSION_SIGMA_MULTIPLIER",
            "5",
            "is unknown; did you mean KLARM_KL_EXPLOSION__SIGMA_MULTIPLIER?",
        ),
        (
            "KLARM_SIGMA_MULTIPLIER",
            "5",
            "is unknown; did you mean KLARM_KL_EXPLOSION__SIGMA_MULTIPLIER?",
        ),
        (
            "KLARM_FRAMEWORK",
            "trll",
            "environment: KLARM_FRAMEWORK: framework 'trll' is unknown; did",
        ),
        (
            "KLARM_METRICS__KL__KIND",
            "k9",
            "KLARM_METRICS__KL__KIND: metrics.kl.kind must be one of",
        ),
        ("KLARM_METRICS__KL__KEYS", "a", "metrics.kl.keys is unknown; did you mean key?"),
        ("KLARM_ENABLED", "0", "is unknown; did you mean KLARM_KL_EXPLOSION__ENABLED?"),
    ],
)
def test_a_wrong_variable_is_refused_by_name_and_value(
    variable: str, text: str, message: str
) -> None:
    """A slip of the pen in the environment is as bad as one in the file."""
    with pytest.raises(ConfigError) as refusal:
        load(environment={variable: text})
    assert message in str(refusal.value)


class PassportRateDetector(PassRateDetector):
    name: ClassVar[str] = "passport_rate"


def test_variables_of_other_programs_are_left_alone() -> None:
    """Kubernetes sets these for a service called klarm."""
    foreign = {"KLARM_PORT": "tcp://10.0.0.1:80", "KLARM_SERVICE_HOST": "10.0.0.1"}
    load(environment=foreign)
    # Also if one of them is a part of a word in the name of a detector.
    load(environment=foreign, overrides={"detectors": [PassportRateDetector()]})


@pytest.mark.parametrize(
    ("named", "environment"),
    [("klarm-prd.yaml", {}), (None, {"KLARM_CONFIG": "klarm-prd.yaml"})],
)
def test_a_named_file_that_is_missing_is_refused(
    named: str | None, environment: dict[str, str]
) -> None:
    """Only the file nobody named may be missing."""
    write("run: a", "klarm-prod.yaml")
    with pytest.raises(ConfigError) as refusal:
        load(named, environment=environment)
    assert "'klarm-prd.yaml' does not exist; did you mean klarm-prod.yaml?" in str(refusal.value)


def test_a_wrong_keyword_is_refused() -> None:
    """It says that the call was wrong, not the file."""
    with pytest.raises(ConfigError, match=r"klarm.init\(\): kl_explosions is unknown"):
        load(overrides={"kl_explosions": {}}, environment={})


def test_settings_given_as_the_file_are_answered_with_how_to_give_them() -> None:
    """`config={...}` is a likely slip."""
    with pytest.raises(ConfigError, match="config names a file; settings are keywords"):
        load({"kl_explosion": {}}, environment={})  # type: ignore[arg-type]


def test_an_empty_file_and_an_empty_section_change_nothing() -> None:
    """Commenting everything out is no error."""
    default = load(environment={}, recorded={})
    for text in ("", "# nothing\n", "kl_explosion:\n"):
        write(text)
        assert load(environment={}) == default


def test_the_file_that_klarm_init_writes_changes_nothing() -> None:
    """It holds every setting with its default."""
    text = default_yaml()
    write(text)
    config = load(environment={})
    assert config == load(environment={}, recorded={})
    assert yaml.safe_load(text)["kl_explosion"].keys() == kl(config).keys()


def test_the_example_of_channels_that_klarm_init_writes_is_right() -> None:
    """Uncommented as it stands."""
    example = default_yaml().partition("# channels:")
    write("".join(example[1:]).replace("\n# ", "\n").replace("# channels:", "channels:"))
    config = load(environment={})
    assert {name: values["type"] for name, values in config.channel_settings.items()} == {
        "team": "slack",
        "pager": "pagerduty",
    }


def test_recorded_settings_stand_in_for_file_and_environment() -> None:
    """What a later version recorded and this one does not know is passed over."""
    write("run: from-file")
    config = load(
        environment={"KLARM_DIR": "from-environment"},
        recorded={
            "run": "recorded",
            "kl_explosion": {"min_std": 0.5, "from_the_future": 1},
            "future_detector": {"a": 1},
        },
        overrides={"kl_explosion": {"sigma_multiplier": 9}},
    )
    assert (config.run, config.dir) == ("recorded", "klarm_runs")
    assert kl(config)["min_std"] == 0.5
    assert kl(config)["sigma_multiplier"] == 9.0


def test_metrics_are_read_in_the_short_form_and_the_long() -> None:
    """Layer by layer, metric by metric; what is recorded is read back the same."""
    write("metrics: {kl: {key: my/kl, kind: reference_k3_sum}, reward: my/reward, loss: my/loss}")
    config = load(
        environment={"KLARM_METRICS__REWARD": "other/reward"},
        overrides={"metrics": {"kl_old": {"kind": "old_k1"}, "loss": "her/loss"}},
    )
    assert config.metrics == {
        "kl": UserKey("my/kl", Kind("reference", "k3", "sequence")),
        "reward": UserKey("other/reward"),
        "loss": UserKey("her/loss"),
        "kl_old": UserKey("", Kind("old", "k1")),
    }
    assert load(recorded=config.as_dict()) == config


def test_the_environment_names_the_kind_of_a_metric() -> None:
    """Alone, with its key, and of the key that the file names."""
    write("metrics: {kl: my/kl}")
    environment = {
        "KLARM_METRICS__KL__KIND": "reference_k1",
        "KLARM_METRICS__KL_OLD": "my/kl_old",
        "KLARM_METRICS__KL_OLD__KIND": "old_k3",
        "KLARM_METRICS__REWARD__KEY": "my/Reward",
    }
    assert load(environment=environment).metrics == {
        "kl": UserKey("my/kl", Kind("reference", "k1")),
        "kl_old": UserKey("my/kl_old", Kind("old", "k3")),
        "reward": UserKey("my/Reward"),
    }


@over("framework", ["", "sb3", "trl/AsyncGRPOTrainer", "my-own", "wandb"])
def test_any_framework_may_be_named(framework: str) -> None:
    """Only a near miss of one that klarm knows is taken for a slip."""
    assert load(environment={"KLARM_FRAMEWORK": framework}).framework == framework
