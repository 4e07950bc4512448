"""What people test their detectors with says what is wrong with one."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import pytest

import klarm
from cases import over
from klarm.detectors import KLBudgetDetector, KLExplosionDetector
from klarm.testing import alerts_of, check_detector, events_of, example_message
from own_parts import SENT, ListChannel, PassRateDetector


def test_a_series_gives_alerts_and_incidents() -> None:
    """By number or by row, and on from where it was."""
    series = [0.5] * 10 + [0.01] * 6
    assert [alert.step for alert in alerts_of(PassRateDetector(), series)] == list(range(10, 16))
    rows = [{"pass_rate": value, "kl": 0.1} for value in series]
    assert [alert.step for alert in alerts_of(PassRateDetector(), rows, 100)] == [*range(110, 116)]
    events = events_of(PassRateDetector(), series)
    assert [(event.event, event.step) for event in events] == [("opened", 14), ("ended", 15)]
    assert alerts_of(KLBudgetDetector(), [0.01] * 50) == []


class Remembering(PassRateDetector):
    def __post_init__(self) -> None:
        self.worst = 1.0
        super().__post_init__()

    def _observe(self, step: int, value: float) -> klarm.Alert | None:
        self.worst = min(self.worst, value)
        self.score = 0.0
        facts = {"lowest": self.worst}
        return self._alert("critical", step, value, facts) if value < self.floor / 3 else None


class Growing(PassRateDetector):
    def _start(self) -> None:
        super()._start()
        self.all: list[float] = []

    def _observe(self, step: int, value: float) -> klarm.Alert | None:
        self.all.append(value)
        return None


class Overflowing(PassRateDetector):
    def _observe(self, step: int, value: float) -> klarm.Alert | None:
        self.score = value * 1e10 - value * 1e10
        return None


class Nervous(PassRateDetector):
    def _observe(self, step: int, value: float) -> klarm.Alert | None:
        return self._alert("critical", step, value, {"lowest": 0.0})


class Closing(PassRateDetector):
    def _start(self) -> None:
        self.seen = lambda: 1

    def _observe(self, step: int, value: float) -> klarm.Alert | None:
        return None


class Forgetting(PassRateDetector):
    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "lowest": math.inf}


class Demanding(PassRateDetector):
    def update(self, step: int, metrics: Mapping[str, float]) -> klarm.Alert | None:
        if self.watches[0] not in metrics:
            return self._alert("critical", step, 0.0, {"lowest": 0.0})
        return super().update(step, metrics)


class Speechless(PassRateDetector):
    messages: ClassVar[Mapping[str, str]] = {"critical": "Pass rate {value}, floor {floor}."}


class Limited(PassRateDetector):
    has_fixed_limit: ClassVar[bool] = False


class Nameless(PassRateDetector):
    name: ClassVar[str] = "Pass Rate"


@over(
    "kind, expected",
    [
        (Remembering, "remembers something after a reset"),
        (Growing, "its state grows with every step"),
        (Overflowing, "is NaN"),
        (Nervous, "a constant value of 0.07 causes an alert: Pass rate 0.07, lowest 0"),
        (Forgetting, "a copy does not behave like its original"),
        (Demanding, "it raises an alert at a step without any metric"),
        (Speechless, "its sentence needs the fact floor"),
        (Limited, "its limit is fixed, so declare has_fixed_limit"),
        (Nameless, "must be in lower case with single underscores"),
    ],
)
def test_a_detector_that_breaks_the_contract_is_reported(
    kind: type[PassRateDetector], expected: str
) -> None:
    """With what it does wrong."""
    with pytest.raises(AssertionError, match=expected):
        check_detector(lambda: kind(floor=0.06))


def test_state_that_is_no_data_fails() -> None:
    """A closure cannot be pickled."""
    with pytest.raises(Exception, match="pickle"):
        check_detector(Closing)


@dataclass(kw_only=True, eq=False)
class Steady(PassRateDetector):
    """Keeps a window, as a good one does."""

    def _start(self) -> None:
        super()._start()
        self.window: deque[float] = deque(maxlen=50)

    def _observe(self, step: int, value: float) -> klarm.Alert | None:
        self.window.append(value)
        return super()._observe(step, value)


def test_a_good_detector_passes() -> None:
    """Klarm's own and another."""
    check_detector(KLExplosionDetector)
    check_detector(lambda: Steady(floor=0.01))
    check_detector(lambda: Steady(floor=0.1), level=0.5)


def test_a_channel_is_tried_with_an_example() -> None:
    """As `klarm test-alert` would, without a run."""
    SENT.clear()
    ListChannel(name="x").send(example_message("warning", run="mine"), {})
    assert SENT[0].title == "mine: kl warning, began at step 150 (opened at step 154)"
    assert SENT[0].curve
