"""What is known of the keys of each framework: a file of data each, all in the catalogue.

Covers row.py, and by going over all of them every other file of metrics/frameworks.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from cases import over
from klarm.metrics import frameworks
from klarm.metrics.catalogue import METRICS
from klarm.metrics.frameworks import CATALOGUE, FRAMEWORKS, SPECIFIC_KEYS, Framework, Row, tables
from klarm.metrics.key_meaning import meaning

every_framework = over("framework", CATALOGUE)


def test_every_file_is_in_the_catalogue() -> None:
    """By the name of the framework, with underscores."""
    files = {path.stem for path in Path(frameworks.__file__).parent.glob("*.py")}
    names = {framework.name.replace("-", "_") for framework in CATALOGUE}
    different = (files - {"__init__", "advice", "row"}) ^ names
    assert different == set(), "CATALOGUE in metrics/frameworks/__init__.py differs in these"
    assert len(names) == len(CATALOGUE)


@every_framework
def test_its_keys_are_metrics_of_the_right_kind(framework: Framework) -> None:
    """A KL against the reference is no KL against the policy before the update."""
    assert framework.name == framework.name.lower()
    for table in (framework.keys, *framework.trainers.values()):
        assert table
        for row in table.values():
            metric = METRICS[row.metric]
            assert (row.kind.target if row.kind else None) == metric.target


@every_framework
def test_its_plain_keys_are_of_metrics_that_need_no_more(framework: Framework) -> None:
    """Every KL has a kind, which a plain key lacks."""
    for metric in (*framework.plain_keys, *framework.when_missing):
        assert metric in METRICS
    assert [metric for metric in framework.plain_keys if METRICS[metric].target] == []


@every_framework
def test_its_tables_are_found_by_any_of_its_names(framework: Framework) -> None:
    """As people write them."""
    for name in (framework.name, framework.name.upper(), *framework.other_names):
        assert list(tables(name.replace("-", "_"))) == [framework.keys]
    for trainer, keys in framework.trainers.items():
        assert list(tables(f"{framework.name}/{trainer}Trainer")) == [keys, framework.keys]


def test_a_key_is_generic_in_every_framework_or_in_none() -> None:
    """Else one file would change what another says."""
    generic: dict[str, set[bool]] = {}
    for table in FRAMEWORKS.values():
        for key, row in table.items():
            generic.setdefault(key, set()).add(row.generic)
    assert [key for key, said in generic.items() if len(said) > 1] == []


def test_a_specific_key_tells_its_framework(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """It means its metric without the name of the framework, with and without a prefix."""
    assert meaning("toy/kl_to_base") is None
    meaning.cache_clear()  # the tables of a real run never change
    request.addfinalizer(meaning.cache_clear)
    monkeypatch.setitem(SPECIFIC_KEYS, "toy/kl_to_base", Row("kl"))
    for key in ("toy/kl_to_base", "train/toy/kl_to_base"):
        known = meaning(key)
        assert known is not None
        assert known.metric == "kl"
