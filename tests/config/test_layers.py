"""Configuration: four layers, and an error that helps for everything that is wrong."""

from __future__ import annotations

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


def test_a_file_that_is_nested_without_end_is_refused() -> None:
    """Rather than with a traceback. What is said of other mistakes: tests/test_approved.py."""
    write("[" * 5000)
    with pytest.raises(ConfigError, match=r"^klarm\.yaml: not valid YAML"):
        load(environment={})


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
