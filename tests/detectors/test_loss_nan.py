"""A loss that is not finite: one step is enough."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import over
from klarm.cli.demo import RECORDINGS, read_recording
from klarm.detectors import LossNanDetector
from klarm.monitor.monitor import Monitor


@over("value", [math.nan, math.inf, -math.inf])
@over("before", [0, 7, 200])
def test_the_first_loss_that_is_not_finite_is_critical_and_decisive(
    value: float, before: int
) -> None:
    """Also as the very first value, and it asks for no second."""
    detector = LossNanDetector()
    losses = [0.01] * before + [value]
    alerts = [detector.update(step, {"loss": loss}) for step, loss in enumerate(losses)]
    assert alerts[:-1] == [None] * before
    assert alerts[-1] is not None
    assert (alerts[-1].step, alerts[-1].severity) == (before, "critical")
    assert alerts[-1].decisive
    assert "checkpoint" in alerts[-1].recommendation


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=60))
def test_a_finite_loss_raises_no_alert(losses: list[float]) -> None:
    """However large, and of whatever sign."""
    detector = LossNanDetector(warmup_steps=0)
    for step, loss in enumerate(losses):
        assert detector.update(step, {"loss": loss}) is None
        assert detector.score == 0.0


def test_the_score_is_zero_again_after_a_nan() -> None:
    """It tells of this value, not of an earlier one."""
    detector = LossNanDetector(warmup_steps=0)
    detector.update(0, {"loss": math.nan})
    assert detector.score == math.inf
    detector.update(1, {"loss": 0.1})
    assert detector.score == 0.0


@pytest.mark.parametrize("recording", RECORDINGS)
def test_the_recordings_have_a_finite_loss_throughout(recording: str) -> None:
    """Even the one that explodes."""
    detector = LossNanDetector()
    assert not any(detector.update(row["step"], row) for row in read_recording(recording))


def test_any_loss_is_watched_whatever_it_is_called() -> None:
    """Also the loss of a critic and an unknown one; the message has its name."""
    for key, said in (("train/critic_loss", "critic_loss"), ("ent_coef_loss", "ent_coef_loss")):
        monitor = Monitor("a", [LossNanDetector()])
        assert monitor.log({key: 1.0, "reward": 0.5}) == []
        (alert,) = monitor.log({key: math.inf, "reward": 0.5})
        assert (alert.severity, alert.decisive) == ("critical", True)
        assert (
            alert.message == f"{said} is infinite at this step; if it stays so, the run is broken."
        )
        assert [incident.signal for incident in monitor.critical] == ["loss"]
