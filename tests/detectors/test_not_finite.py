"""Values that are not finite: what an alert says to do first depends on the metric."""

from __future__ import annotations

import pytest

from klarm.detectors.not_finite import _WHERE_TO_LOOK, when_not_finite
from klarm.metrics import METRICS


@pytest.mark.parametrize(
    ("metric", "place"),
    [
        ("kl", "how KL is estimated"),
        ("reward_std", "the reward function"),
        ("entropy", "the logits"),
        ("length", "how this metric is counted"),
        ("loss", "an overflow"),
        ("a metric of the user's own", "an overflow"),
    ],
)
def test_each_metric_has_a_place_to_look_at(metric: str, place: str) -> None:
    """A metric without one points to the numerics of the update."""
    assert place in when_not_finite(metric)


def test_places_are_of_metrics_that_exist() -> None:
    """A metric that is renamed keeps its place, and has one only."""
    metrics = [metric for names in _WHERE_TO_LOOK for metric in names]
    assert set(metrics) <= METRICS.keys()
    assert len(metrics) == len(set(metrics))
