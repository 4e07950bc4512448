"""Coverage: what of a run is watched, what is not, and what to do about it.

`tests/metrics/test_binding.py` pins the lines; here it is the order in which a run hears of them.
"""

from __future__ import annotations

from klarm.detectors import (
    KLExplosionDetector,
    LossNanDetector,
    MetricLostDetector,
    RewardCollapseDetector,
)
from klarm.metrics import Binding
from klarm.monitor.binding_report import BindingReport
from klarm.monitor.coverage import idle, watched, watched_in_short
from klarm.monitor.missing import hints

DETECTORS = [KLExplosionDetector(), LossNanDetector(), MetricLostDetector()]


def bound(**metrics: float) -> Binding:
    binding = Binding()
    binding.read(metrics)
    return binding


def test_a_detector_is_idle_without_its_metric_and_says_why() -> None:
    """One that is off says that."""
    detectors = [*DETECTORS, KLExplosionDetector(enabled=False)]
    assert idle(detectors[:3], bound(kl=0.1)) == {"loss_nan": "idle: no loss is logged"}
    assert idle(detectors[3:], bound(kl=0.1)) == {"kl_explosion": "off (enabled: false)"}


def test_noticing_that_a_metric_vanishes_is_not_watching_it() -> None:
    """So a run with nothing else is not watched."""
    assert watched(DETECTORS, bound(kl=0.1)) == ["kl_explosion"]
    assert watched(DETECTORS, bound(entropy=0.1)) == []


def test_what_is_watched_fits_into_a_line() -> None:
    """With the trainer's key where it differs."""
    binding = Binding()
    binding.read({"objective/kl": 0.1, "loss": 1.0})
    assert watched_in_short(DETECTORS, binding).startswith("watching kl ← objective/kl")
    assert watched_in_short(DETECTORS, Binding()) == "watching nothing"


def test_a_key_that_looks_like_a_missing_metric_is_offered() -> None:
    """With the setting that binds it."""
    (hint,) = hints(DETECTORS[1:2], bound(**{"my/loss/total": 1.0}))
    assert "set metrics.loss: my/loss/total" in hint


def test_a_key_that_is_read_as_another_metric_is_not_offered() -> None:
    """A deviation of the reward is not the reward."""
    found = hints([RewardCollapseDetector()], bound(reward_std=0.5))
    assert not any("reward_std" in hint for hint in found)


def test_a_metric_that_comes_late_is_said_once_and_ends_the_waiting() -> None:
    """After that there is nothing left to look for in a step."""
    said: list[str] = []
    binding = Binding()
    report = BindingReport([LossNanDetector()], binding, said.append)
    for step, metrics in enumerate(({"entropy": 1.0}, {"entropy": 1.0}, {"loss": 1.0})):
        waits = report.step(step, binding.read(metrics))
        assert waits is (step < 2)
    assert [line.partition(":")[0] for line in said] == ["WARNING", "watching\n  loss"]
    report.finish()
    assert len(said) == 2
