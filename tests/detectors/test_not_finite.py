"""Values that are not finite: what an alert says to do first depends on the metric."""

from __future__ import annotations

from typing import get_args

from cases import over
from klarm.detectors.not_finite import ADVICE, when_not_finite, when_still_not_finite
from klarm.metrics import METRICS, LookAt
from klarm.metrics.frameworks import CATALOGUE


@over(
    "metric, place",
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


def test_once_there_are_several_nobody_is_advised_to_wait_for_more() -> None:
    """The advice on the first value is to check the next rows, in every framework."""
    firsts = [when_not_finite(name) for name, m in METRICS.items() if m.look_at != "counting"]
    for framework in CATALOGUE:
        own = framework.advice
        firsts += [*own.not_finite.values(), *own.detectors.get("loss_nan", {}).values()]
    waiting = [first for first in firsts if "Check the next rows" in when_still_not_finite(first)]
    assert waiting == []
    assert all(when_still_not_finite(first) != first for first in firsts)
