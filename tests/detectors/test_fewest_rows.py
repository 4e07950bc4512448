"""How many rows each detector needs before it can say anything."""

from __future__ import annotations

import math

import fewest_rows
from cases import over
from fewest_rows import LEVELS, MOST, first_alert
from klarm.detectors import CATALOGUE, Detector


@over("kind", CATALOGUE)
def test_every_detector_can_alert_in_a_short_run(kind: type[Detector]) -> None:
    """docs/without-kl.md has the row; `make approve` writes it."""
    lacking = not kind.watches_all and kind.reads[0] not in LEVELS
    assert not lacking, f"add {kind.reads[0]} to LEVELS in tests/fewest_rows.py"
    found = fewest_rows.fewest_rows(kind)
    assert found < MOST, f"no jump in LEVELS makes {kind.name} alert: see `first_alert`"


@over("kind", CATALOGUE)
def test_an_alert_says_in_which_direction_its_metric_went(kind: type[Detector]) -> None:
    """Or messages would call its best value the worst."""
    alert, _ = first_alert(kind, 100, 300, seed=0)
    assert alert is not None
    value, usual = alert.metrics.get(kind.reads[0]), LEVELS.get(kind.reads[0], (0.0, 0.0))[0]
    if kind.watches_all or not isinstance(value, float) or not math.isfinite(value):
        return  # what is lost or not a number has no direction
    went = "higher" if value > usual else "lower"
    assert alert.worse == went, f"set `worse` of {kind.name}, or in its call of `_alert`"
