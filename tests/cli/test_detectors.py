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
    """Each with its default."""
    _, found, rest = listing.partition(f"{kind.name}  ")
    assert found
    lines = rest.splitlines()
    assert lines[1].startswith("  watches ")
    settings = settings_of(kind)
    shown = [line.split()[:2] for line in lines[2 : 2 + len(settings)]]
    assert shown == [[name, str(known.default)] for name, known in settings.items()]
