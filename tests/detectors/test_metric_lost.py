"""Metrics that vanish or stand still, and the many that only seem to."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from klarm.cli.demo import RECORDINGS, read_recording
from klarm.detectors import MetricLostDetector
from klarm.journal.file import MemoryJournal
from klarm.metrics import Kind
from klarm.monitor.monitor import Monitor
from klarm.types import Event


def messages(row: Callable[[int], dict[str, float]], steps: int = 300) -> dict[int, str]:
    """Return what is said, by step, of a run whose steps log what `row` returns."""
    detector = MetricLostDetector()
    alerts = (detector.update(step, row(step)) for step in range(steps))
    assert all(alert.severity == "warning" and alert.decisive for alert in alerts if alert)
    detector.reset()
    alerts = (detector.update(step, row(step)) for step in range(steps))
    return {alert.step: alert.message for alert in alerts if alert}


def noise(step: int) -> float:
    return 0.1 + math.sin(step) / 100


def test_a_metric_that_vanishes_raises_an_alert_after_fifty_steps() -> None:
    """KL is there until step 99, so at step 149 it is gone for fifty."""
    said = messages(lambda i: {"loss": noise(i), **({"kl": noise(i)} if i < 100 else {})}, 160)
    assert list(said) == list(range(149, 160))
    assert said[149] == "kl has not been logged for 50 rows."


def test_a_metric_that_returns_is_quiet_immediately() -> None:
    """And is missed again only after three times as long a gap."""
    present = [*range(100), *range(200, 300)]
    said = messages(lambda i: {"loss": noise(i), **({"kl": noise(i)} if i in present else {})}, 650)
    assert list(said) == [*range(149, 200), *range(602, 650)]


def test_a_metric_stuck_at_one_value_raises_an_alert_at_the_fiftieth() -> None:
    """From step 100 on the reward is -0.25 exactly."""
    said = messages(lambda i: {"kl": noise(i), "reward": noise(i) if i < 100 else -0.25}, 152)
    assert list(said) == [149, 150, 151]
    assert said[149] == "reward has been stuck at -0.25 for 50 rows."


def test_a_reward_at_its_best_is_saturated_and_not_stuck() -> None:
    """It cannot rise any more."""
    assert not messages(lambda i: {"kl": noise(i), "reward": min(0.01 * i, 1.0)}, 300)


def test_a_log_that_fills_values_forward_is_not_stuck() -> None:
    """Each reward is held for six rows, and one for fifty."""
    rewards = [float(-(i // 6)) for i in range(120)] + [-20.5] * 55
    assert not messages(lambda i: {"kl": noise(i), "reward": rewards[i]}, len(rewards))


def test_a_loss_that_is_rounded_away_is_not_stuck() -> None:
    """0.0001 fifty times is what four decimals leave of a small loss."""
    losses = [0.01 * noise(i) for i in range(100)] + [0.0001] * 60
    assert not messages(lambda i: {"kl": noise(i), "loss": losses[i]}, len(losses))


def test_what_falls_to_zero_and_stays_is_stuck() -> None:
    """A gradient that is exactly 0 is that of a dead policy."""
    said = messages(lambda i: {"grad_norm": noise(i) if i < 100 else 0.0}, 150)
    assert list(said) == [149]


def test_zero_from_the_start_means_not_measured() -> None:
    """TRL's KL without a reference model, for one; a loss rounds to 0 at any time."""
    assert messages(lambda _: {"kl": 0.0, "grad_norm": 0.0}) == {}
    assert messages(lambda i: {"loss": noise(i) if i < 100 else 0.0}) == {}


def test_constants_are_normal_where_nothing_is_noisy() -> None:
    """A learning rate, shares, a spread, a coefficient, a length at the limit."""
    constants = {"learning_rate": 1e-5, "clip_fraction": 0.0, "truncated_fraction": 0.0}
    constants |= {"zero_std_fraction": 0.25, "reward_std": 0.0, "kl_coef": 0.05, "length": 512.0}
    assert messages(lambda i: {"kl": noise(i), **constants}) == {}


@pytest.mark.parametrize("every", [4, 30, 100])
def test_a_metric_logged_on_every_nth_step_is_not_lost(every: int) -> None:
    """TRL logs the reward on every fourth step with num_iterations=4."""
    assert (
        messages(
            lambda i: {"kl": noise(i), **({"reward": noise(i)} if i % every == 0 else {})}, 2000
        )
        == {}
    )


def test_a_rare_metric_that_vanishes_raises_an_alert_after_three_of_its_gaps() -> None:
    """It came on every 30th step, last at 600: at 690 it is missed."""
    said = messages(
        lambda i: {"kl": noise(i), **({"reward": noise(i)} if i % 30 == 0 and i <= 600 else {})},
        700,
    )
    assert min(said) == 690


def test_steps_that_are_skipped_are_not_missed() -> None:
    """Counted is what was logged: a log with gaps has fewer steps, not lost ones."""
    detector = MetricLostDetector()
    assert not any(detector.update(step * 100, {"kl": noise(step)}) for step in range(300))


def test_a_metric_that_was_logged_only_a_few_times_is_not_lost() -> None:
    """Four times is chance."""
    assert messages(lambda i: {"loss": noise(i), **({"kl": noise(i)} if i < 4 else {})}) == {}
    assert messages(lambda i: {"loss": noise(i), **({"kl": noise(i)} if i < 5 else {})}) != {}


def test_unknown_metrics_are_ignored() -> None:
    """Trackers log all sorts of things for a while."""
    assert messages(lambda i: {"kl": noise(i), **({"my/own": 1.0} if i < 100 else {})}) == {}


def test_several_dicts_of_one_step_are_one_step() -> None:
    """Forty steps of three dicts are no 120 steps, and the last summary without KL is none."""
    detector = MetricLostDetector()
    for step in range(300):
        assert detector.update(step, {"loss": noise(step)}) is None
        if step % 40 == 0:
            assert detector.update(step, {"kl": noise(step)}) is None
        assert detector.update(step, {"reward": noise(step)}) is None
    assert detector.update(299, {}) is None


@pytest.mark.parametrize("recording", RECORDINGS)
def test_the_recordings_raise_no_alert(recording: str) -> None:
    """Real GRPO runs, with a summary that repeats the last step."""
    monitor = Monitor("a", [MetricLostDetector()])
    rows = read_recording(recording)
    assert not any(monitor.log(row, row["step"]) for row in rows)
    assert monitor.log({"train_loss": 0.1}, rows[-1]["step"]) == []


def test_its_incident_lasts_as_long_as_the_metric_is_missing() -> None:
    """It opens at once, and is resolved by twenty steps with everything there."""
    journal = MemoryJournal()
    monitor = Monitor("a", [MetricLostDetector()], journal)
    for step in range(300):
        away = 100 <= step < 200
        monitor.log({"loss": noise(step), **({} if away else {"kl": noise(step)})}, step)
    events = [record for record in journal.records if isinstance(record, Event)]
    assert [(event.event, event.signal, event.step) for event in events] == [
        ("opened", "liveness", 149),
        ("resolved", "liveness", 219),
    ]


def test_a_kl_that_is_logged_as_0_where_it_is_below_may_stand_at_0() -> None:
    """KTO's does for most of a healthy run; another one that stands there is stuck."""
    floored, plain = MetricLostDetector(), MetricLostDetector()
    floored.bound("kl", Kind("reference", per="sequence", floored=True))
    plain.bound("kl", Kind("reference", "k3"))
    values = [0.003, 0.0, 0.001, *[0.0] * 200]
    found = [
        [detector.update(step, {"kl": value}) for step, value in enumerate(values)]
        for detector in (floored, plain)
    ]
    assert [any(alerts) for alerts in found] == [False, True]
    floored.reset()
    values = [0.003, 0.0, 0.001, *[0.5] * 200]
    assert any(floored.update(step, {"kl": value}) for step, value in enumerate(values))
