"""What every detector in the catalogue must hold to, whoever wrote it.

Covers base.py.
"""

from __future__ import annotations

import copy
import math
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klarm.detectors import CATALOGUE, Detector, MetricLostDetector
from klarm.metrics.catalogue import METRICS
from klarm.settings.fields import settings_of
from klarm.types import SEVERITIES

every_detector = pytest.mark.parametrize("kind", CATALOGUE, ids=lambda kind: kind.name)
any_stream = st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=120)


def feed(detector: Detector, values: list[float]) -> list[object]:
    metric = detector.watches[0]
    return [detector.update(step, {metric: value}) for step, value in enumerate(values)]


@every_detector
def test_its_names_are_one_word(kind: type[Detector]) -> None:
    """File, name and section agree, and it watches metrics that exist."""
    assert kind.__module__ == f"klarm.detectors.{kind.name}"
    assert kind.__name__.endswith("Detector")
    assert set(kind.watches) <= set(METRICS)
    assert kind.recommendations  # for the severities it has
    assert set(kind.recommendations) <= set(SEVERITIES)


@every_detector
def test_every_setting_has_a_default_that_is_possible_and_a_meaning(kind: type[Detector]) -> None:
    """And `enabled` and `warmup_steps` are among them."""
    declared = settings_of(kind)
    assert {"enabled", "warmup_steps"} <= set(declared)
    for setting in declared.values():
        assert setting.check(setting.default) == setting.default
        assert setting.meaning


@every_detector
@given(values=any_stream)
def test_any_stream_of_floats_is_taken_and_scored(
    kind: type[Detector], values: list[float]
) -> None:
    """It never raises, and its score is never NaN."""
    detector = kind()
    for step, value in enumerate(values):
        detector.update(step, {detector.watches[0]: value})
        assert not math.isnan(detector.score)


@every_detector
@given(value=st.floats(allow_nan=False, allow_infinity=False, min_value=0.06, max_value=0.09))
def test_a_constant_is_silent(kind: type[Detector], value: float) -> None:
    """Nothing happens, so nothing is said."""
    if kind is MetricLostDetector:
        pytest.skip("that a metric stands still is what it is there to say")
    assert not any(feed(kind(), [value] * 300))


@every_detector
@given(before=any_stream, after=any_stream)
def test_a_reset_forgets_everything(
    kind: type[Detector], before: list[float], after: list[float]
) -> None:
    """It then behaves as one just made."""
    used = kind()
    feed(used, before)
    used.reset()
    assert repr(feed(used, after)) == repr(feed(kind(), after))


@every_detector
@given(before=any_stream, after=any_stream)
def test_a_copy_and_a_pickle_go_on_alike(
    kind: type[Detector], before: list[float], after: list[float]
) -> None:
    """State is plain data."""
    original = kind()
    feed(original, before)
    twins = [copy.deepcopy(original), pickle.loads(pickle.dumps(original))]
    expected = repr(feed(original, after))
    assert [repr(feed(twin, after)) for twin in twins] == [expected, expected]


@every_detector
def test_memory_is_bounded(kind: type[Detector]) -> None:
    """After the first windows, ten times as many steps take no more room."""
    detector = kind()
    feed(detector, [0.07 + 0.001 * (i % 17) for i in range(2_000)])
    before = len(pickle.dumps(detector))
    feed(detector, [0.07 + 0.001 * (i % 17) for i in range(20_000)])
    assert len(pickle.dumps(detector)) <= before + 64  # counters have more digits


@every_detector
def test_a_step_without_its_metric_is_passed_over(kind: type[Detector]) -> None:
    """Other metrics are not its business."""
    detector = kind()
    assert detector.update(0, {}) is None
    assert detector.update(1, {"something/else": math.nan}) is None
