"""Every hook starts in the same way."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

import klarm
from klarm.integrations.base import checked_settings, start_run
from klarm.integrations.reaction import Reaction
from own_parts import PassRateDetector


def test_wrong_settings_name_the_place_the_value_and_the_remedy() -> None:
    """The error is raised before anything has started."""
    with pytest.raises(klarm.ConfigError, match=r"on_critical is 'pause': it must be \"none\""):
        Reaction("pause", None)  # type: ignore[arg-type]
    with pytest.raises(klarm.ConfigError, match=r"KlarmCallback.*did you mean trust_region"):
        checked_settings("", None, None, {"trust_regio": {}}, "KlarmCallback()")
    with pytest.raises(klarm.ConfigError, match="a/b"):
        checked_settings("", "a/b", None, {}, "KlarmCallback()")


def test_the_hook_names_its_framework_unless_the_user_names_another() -> None:
    """The framework decides what keys mean."""
    assert checked_settings("sb3", None, None, {}, "here").framework == "sb3"
    said = checked_settings("trl", None, None, {"framework": "trl/RLOO"}, "here")
    assert said.framework == "trl/RLOO"


def test_the_users_name_of_a_run_is_preferred_to_the_frameworks() -> None:
    """The framework's name is turned into a valid name of a folder."""
    settings = checked_settings("", None, None, {"console": False}, "here")
    assert start_run(settings, "my/run: 7").run == "my-run: 7"
    named = checked_settings("", "mine", None, {"console": False}, "here")
    assert start_run(named, "theirs").run == "mine"


def test_a_hook_accepts_the_arguments_of_klarm_init() -> None:
    """This includes a configuration and the user's own detectors."""
    config = klarm.Config.load(console=False, dir="elsewhere")
    own = {"detectors": [PassRateDetector(floor=0.3)]}
    monitor = start_run(checked_settings("", "a", config, own, "here"))
    assert monitor.detectors[-1].name == "pass_rate_floor"
    assert Path("elsewhere/a/journal.jsonl").exists()


def test_a_secret_given_as_text_costs_its_channel_in_another_process(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As in a trial of Ray Tune: a pickle does not hold it. The run is watched all the same."""
    hook = {"type": "webhook", "url": "http://127.0.0.1:9/hook", "bearer_token": "hunter2-hunter2"}
    settings = checked_settings("", "a", None, {"channels": {"ops": hook}}, "here")
    pickled = pickle.dumps(settings)
    assert b"hunter2" not in pickled
    monitor = start_run(pickle.loads(pickled))
    assert monitor.recorded
    said = capsys.readouterr().err
    assert "channels.ops.bearer_token is plain text, which does not go to another process" in said
