"""Values that are not finite: what an alert says to do first depends on the metric."""

from __future__ import annotations

from typing import get_args

from cases import over
from klarm.metrics import METRICS, LookAt
from klarm.metrics.frameworks import CATALOGUE
from klarm.wording.not_finite import _ADVICE, look_at, when_not_finite
from made_alerts import made_alert


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
    assert place in when_not_finite(metric, {})


def test_each_place_has_its_advice() -> None:
    """A place that is added to the catalogue of metrics needs words here."""
    assert _ADVICE.keys() == set(get_args(LookAt))


def test_once_there_are_several_nobody_is_advised_to_wait_for_more() -> None:
    """The advice on the first value is to check the next rows, in every framework."""
    for framework in CATALOGUE:
        own = {look_at(metric): text for metric, text in framework.advice.not_finite.items()}
        for name, metric in METRICS.items():
            if metric.look_at != "counting":
                assert "Check the next rows" in when_not_finite(name, own)
                assert "Check the next rows" not in when_not_finite(name, own, lasting=True)


def test_a_value_that_was_recorded_as_text_is_said_alike() -> None:
    """JSON has no infinity, so a journal spells it."""
    live = made_alert({"kl": float("-inf")})
    recorded = made_alert({"kl": "-Infinity"}, worse="not_finite")
    assert live.message == recorded.message
    assert "minus infinity" in live.message
