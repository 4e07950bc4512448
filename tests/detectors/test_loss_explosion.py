"""loss_explosion: a loss beyond every scale it had, for five values in a row."""

from __future__ import annotations

import random

from fed_detectors import severities
from klarm.detectors import LossExplosionDetector
from klarm.types import Alert


def feed(values: list[float], metric: str = "loss") -> list[Alert | None]:
    detector = LossExplosionDetector()
    return [detector.update(step, {metric: value}) for step, value in enumerate(values)]


def noise(count: int, size: float = 0.3) -> list[float]:
    rng = random.Random(2)
    return [rng.gauss(0, size) for _ in range(count)]


def test_a_lasting_explosion_raises_an_alert_at_its_fifth_value() -> None:
    """Within the first hundred rows, too, and for the losses of actor and critic as well."""
    for metric in ("loss", "actor_loss", "critic_loss"):
        alerts = feed([*noise(30), *[-50.0] * 10], metric)
        assert min(severities(alerts)) == 34
        assert alerts[34] is not None
        assert alerts[34].decisive
        assert f"The last 5 values of {metric} are at least 50" in alerts[34].message


def test_a_hundred_times_is_critical() -> None:
    """From ten times on it is a warning."""
    assert severities(feed([*noise(100), *[5000.0] * 5])) == {104: "critical"}


def test_a_spike_is_not_an_explosion() -> None:
    """Four values, however large."""
    assert severities(feed([*noise(100), *[1e9] * 4, *noise(100)])) == {}


def test_a_loss_of_rounding_noise_raises_no_alert() -> None:
    """A policy's loss is often 0 in exact arithmetic."""
    assert severities(feed([*noise(100, 1e-8), *[0.2] * 50])) == {}


def test_a_loss_that_grows_slowly_raises_no_alert() -> None:
    """Tenfold over two hundred rows."""
    assert severities(feed([10.0 ** (step / 200) for step in range(600)])) == {}
