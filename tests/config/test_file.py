"""The file of settings: which one is read, and what is said of one that cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from klarm.config.file import DEFAULT_FILE, find_file, parse_file
from klarm.settings.fields import ConfigError


def test_the_named_file_goes_before_the_variable_and_that_before_the_default() -> None:
    """Without any of them there is none."""
    assert find_file(None, {}, True) is None
    for name in (DEFAULT_FILE, "b.yaml", "c.yaml"):
        Path(name).touch()
    assert find_file(None, {}, True) == Path(DEFAULT_FILE)
    assert find_file(None, {}, False) is None
    assert find_file(None, {"KLARM_CONFIG": "b.yaml"}, True) == Path("b.yaml")
    assert find_file("c.yaml", {"KLARM_CONFIG": "b.yaml"}, True) == Path("c.yaml")


def test_a_misspelt_file_is_answered_with_the_nearest() -> None:
    """And with who named it."""
    Path("klarm-prod.yaml").touch()
    with pytest.raises(ConfigError, match=r"KLARM_CONFIG 'klarm-prd.yaml' does not exist.*prod"):
        find_file(None, {"KLARM_CONFIG": "klarm-prd.yaml"}, True)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("kl: 1\nkl: 2\n", "line 2: not valid YAML: kl is given twice"),
        ("a: [1\n", "line 2: not valid YAML"),
        ("- a\n", "must contain `key: value` lines, got a list"),
        ("a: *x9Yz\n", "line 1: not valid YAML: an unknown alias"),
    ],
)
def test_what_is_no_yaml_of_ours_is_refused_by_line(text: str, complaint: str) -> None:
    """The text there is not repeated: it may be a secret."""
    Path("a.yaml").write_text(text)
    with pytest.raises(ConfigError) as refused:
        parse_file(Path("a.yaml"))
    assert complaint in str(refused.value)
    assert "x9Yz" not in str(refused.value)


def test_an_empty_file_holds_nothing() -> None:
    """Comments alone, too."""
    Path("a.yaml").write_text("# nothing yet\n")
    assert parse_file(Path("a.yaml")) == {}


def test_merges_of_merges_are_refused_before_they_fill_the_memory() -> None:
    """Each line doubles them: forty would be a terabyte. A merge as people write it is fine."""
    lines = ["a0: &a0 {k0: 1}"]
    lines += [f"a{i}: &a{i} {{<<: [*a{i - 1}, *a{i - 1}], k{i}: 1}}" for i in range(1, 40)]
    Path("klarm.yaml").write_text("\n".join(lines))
    with pytest.raises(ConfigError, match=r"line \d+: not valid YAML: merge keys"):
        parse_file(Path("klarm.yaml"))
    Path("klarm.yaml").write_text(
        "kl_explosion: &shared {warmup_steps: 5}\nloss_nan: {<<: *shared, enabled: false}"
    )
    assert parse_file(Path("klarm.yaml"))["loss_nan"] == {"warmup_steps": 5, "enabled": False}


def test_a_file_that_is_far_too_large_is_refused_unread() -> None:
    """Such as a log that was named by mistake."""
    Path("klarm.yaml").write_text("#" * (2**20 + 1))
    with pytest.raises(ConfigError, match="larger than 1 MiB"):
        parse_file(Path("klarm.yaml"))
