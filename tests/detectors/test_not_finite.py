"""Values that are not finite: what an alert says to do first depends on the metric."""

from __future__ import annotations

from typing import get_args

import pytest

from klarm.detectors.not_finite import ADVICE, when_not_finite, when_still_not_finite
from klarm.metrics import METRICS, LookAt
from klarm.metrics.frameworks import CATALOGUE, Framework


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


def test_each_place_has_its_advice() -> None:
    """A place that is added to the catalogue of metrics needs words here."""
    assert ADVICE.keys() == set(get_args(LookAt))


@pytest.mark.parametrize("metric", [name for name, m in METRICS.items() if m.look_at != "counting"])
def test_the_advice_on_several_values_does_not_say_to_wait_for_more(metric: str) -> None:
    """The advice on the first one does."""
    first = when_not_finite(metric)
    assert first.startswith("Check the next rows.")
    assert when_still_not_finite(first).startswith("Stop the run, go back")


@pytest.mark.parametrize("framework", CATALOGUE, ids=lambda framework: framework.name)
def test_the_advice_of_a_framework_does_not_say_to_wait_for_more(framework: Framework) -> None:
    """Its words are its own, in the same order."""
    own = framework.advice
    for first in [*own.not_finite.values(), *own.detectors.get("loss_nan", {}).values()]:
        assert when_still_not_finite(first).startswith("Stop the run, go back")
