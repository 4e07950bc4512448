"""`klarm detectors`: every detector with what it watches and its settings."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from klarm.cli.group import klarm as command
from klarm.detectors import CATALOGUE, Detector
from klarm.settings import settings_of


@pytest.fixture(scope="module")
def listing() -> str:
    done = CliRunner().invoke(command, ["detectors"], env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.parametrize("kind", CATALOGUE, ids=lambda kind: kind.name)
def test_every_detector_is_listed_with_all_its_settings(listing: str, kind: type[Detector]) -> None:
    """Each setting has its default."""
    _, found, rest = listing.partition(f"{kind.name}  ")
    assert found
    lines = rest.splitlines()
    assert lines[1].startswith("  watches ")
    settings = settings_of(kind)
    shown = [line.split()[:2] for line in lines[2 : 2 + len(settings)]]
    assert shown == [[name, str(known.default)] for name, known in settings.items()]


@pytest.mark.parametrize("kind", CATALOGUE, ids=lambda kind: kind.name)
def test_one_detector_is_explained_in_full(kind: type[Detector]) -> None:
    """It prints the purpose, metrics and settings of that detector only."""
    done = CliRunner().invoke(command, ["detectors", kind.name], env={"COLUMNS": "80"})
    assert done.exit_code == 0, done.output
    shown = " ".join(done.output.split())
    assert shown.startswith(f"{kind.name} ")
    assert f"incidents are on the signal {kind.signal}" in shown
    assert "watches every metric" in shown or all(f"watches {m}:" in shown for m in kind.watches)
    for setting in settings_of(kind).values():
        assert setting.meaning in shown
    assert ">>>" not in shown
    assert max(map(len, done.output.splitlines())) <= 80


def test_the_error_for_a_wrong_name_suggests_the_nearest() -> None:
    """The error is one line."""
    done = CliRunner().invoke(command, ["detectors", "kl_explosoin"])
    assert done.exit_code == 1
    assert "there is no detector kl_explosoin; did you mean kl_explosion?" in done.output


def test_no_detector_is_explained_in_klarms_own_terms(listing: str) -> None:
    """Nobody outside knows what a decisive alert is."""
    whole = [CliRunner().invoke(command, ["detectors", kind.name]).output for kind in CATALOGUE]
    assert "decisive" not in " ".join([listing, *whole]).lower()
    assert "One alert opens an incident." in listing
