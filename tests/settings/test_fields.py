"""Settings: every value in its own type, and an error that says what it must be."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest

from cases import over
from klarm.settings.fields import (
    ConfigError,
    Names,
    Setting,
    check_settings,
    did_you_mean,
    setting,
    settings_of,
)


@dataclass(kw_only=True)
class Alarm:
    volume: float = setting(3.0, "how loud", above=0)
    rings: int = setting(2, "how often", at_least=1)
    tune: str = setting("bell", "what it plays", choices=("bell", "horn"))
    enabled: bool = setting(True, "false switches it off")
    plain: int = 7

    def __post_init__(self) -> None:
        check_settings(self, "alarm")


def test_a_value_gets_the_type_of_its_default() -> None:
    """Numbers of numpy, too."""
    made = Alarm(volume=5, rings=np.int64(4))
    assert (type(made.volume), type(made.rings)) == (float, int)
    assert (made.volume, made.rings) == (5.0, 4)


def test_only_declared_fields_are_settings() -> None:
    """In their order, with their meaning."""
    assert list(settings_of(Alarm)) == ["volume", "rings", "tune", "enabled"]
    assert settings_of(Alarm)["rings"].meaning == "how often"


@over(
    "given, complaint",
    [
        ({"volume": 0}, "alarm.volume must be greater than 0, got 0"),
        ({"volume": math.nan}, "alarm.volume must be a finite number, got nan"),
        ({"volume": True}, "alarm.volume must be a number, got True"),
        ({"rings": 0}, "alarm.rings must be at least 1, got 0"),
        ({"rings": 1.5}, "alarm.rings must be a whole number, got 1.5"),
        ({"tune": "hron"}, "alarm.tune must be 'bell' or 'horn', got 'hron'; did you mean horn?"),
        ({"tune": 3}, "alarm.tune must be text (put it in quotes), got 3"),
        ({"enabled": 1}, "alarm.enabled must be true or false, got 1"),
    ],
)
def test_a_wrong_value_is_refused_by_place_and_value(
    given: dict[str, object], complaint: str
) -> None:
    """When the owner is made, before training starts."""
    with pytest.raises(ConfigError) as refused:
        Alarm(**given)  # type: ignore[arg-type]
    assert str(refused.value) == complaint


def test_text_of_a_file_or_the_environment_is_read_as_its_type() -> None:
    """YAML reads 1e-4 as text, and the environment has nothing else."""
    declared = settings_of(Alarm)
    assert declared["volume"].read("1e-4") == 1e-4
    assert declared["rings"].read("4") == 4
    assert [declared["enabled"].read(text) for text in ("Off", "yes")] == [False, True]
    with pytest.raises(ConfigError, match="must be a whole number, got 'many'"):
        declared["rings"].read("many")


def test_a_long_or_telling_value_is_not_repeated() -> None:
    """It may be a secret in the wrong place."""
    for text in ("x" * 25, "https://a.org"):
        with pytest.raises(ConfigError) as refused:
            Setting("rings", 2, "").read(text)
        assert text not in str(refused.value)


def test_names_are_a_list_or_text_with_commas() -> None:
    """Empty ones are none."""
    assert Names.as_setting("kl, reward,") == ("kl", "reward")
    assert Names.as_setting(["kl"]) == ("kl",)
    with pytest.raises(ConfigError, match="must be text or a list of text"):
        Names.as_setting([1])


def test_a_near_name_is_offered_and_a_far_one_is_not() -> None:
    """A part of a name is near."""
    known = ["kl_explosion", "reward_drift"]
    assert did_you_mean("kl_explosoin", known) == "; did you mean kl_explosion?"
    assert did_you_mean("drift", known) == "; did you mean reward_drift?"
    assert did_you_mean("zebra", known) == ""
