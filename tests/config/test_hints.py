"""An unknown key is answered with what was probably meant."""

from __future__ import annotations

import pytest

import klarm
from cases import over
from klarm.config import load

INSTEAD = {
    # What other tools call it.
    "name": "run",
    "run_name": "run",
    "project": "run",
    "log_dir": "dir",
    "verbose": "console",
    "enabled": "disabled",
    # Nearly the right spelling.
    "runn": "run",
    "console_alert": "console_alerts",
    "kl_explosoin": "kl_explosion",
    # In the wrong place.
    "kl": "metrics: {kl: ...}",
    "memory_steps": "kl_runaway: {memory_steps: ...} or kl_probe_runaway: {memory_steps: ...}",
    "accept_after": "incidents: {accept_after: ...}",
}


@over("wrong, meant", INSTEAD.items())
def test_an_unknown_keyword_names_what_was_probably_meant(wrong: str, meant: str) -> None:
    """The words of other tools, slips of the pen, and settings without their section."""
    with pytest.raises(klarm.ConfigError) as refusal:
        klarm.init(**{wrong: "x"})  # type: ignore[arg-type]
    assert str(refusal.value) == f"klarm.init(): {wrong} is unknown; did you mean {meant}?"


def test_a_setting_of_many_sections_names_a_few_of_them() -> None:
    """Every detector has confirm_steps."""
    with pytest.raises(klarm.ConfigError, match="or that of another section") as refusal:
        load(environment={}, overrides={"confirm_steps": 3})
    assert "incidents: {confirm_steps: ...} or kl_explosion: {confirm_steps" in str(refusal.value)
