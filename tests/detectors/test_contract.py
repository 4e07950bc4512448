"""What every detector in the catalogue must hold to, whoever wrote it.

Covers base.py and declaration.py. The checks are those of `klarm.testing`, which others use for
theirs.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cases import over
from klarm import testing
from klarm.detectors import CATALOGUE, Detector, MetricLostDetector
from klarm.metrics.catalogue import METRICS
from klarm.settings.fields import settings_of

every_detector = over("kind", CATALOGUE)
any_stream = st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=120)


@every_detector
def test_its_names_agree(kind: type[Detector]) -> None:
    """File, name and section agree, and it watches metrics that exist."""
    own = "kl_probe" if kind.name.startswith("kl_probe") else kind.name
    assert kind.__module__ == f"klarm.detectors.{own}"
    assert kind.__name__.endswith("Detector")
    unknown = set(kind.watches) - set(METRICS)
    assert unknown == set(), "add these to METRICS in metrics/catalogue.py"


@over("kind", [kind for kind in CATALOGUE if not kind.watches_all])
def test_it_reads_no_metric_that_is_only_shown(kind: type[Detector]) -> None:
    """Otherwise nobody is told when such a metric is missing."""
    only_shown = [name for name in kind.watches if name in METRICS and METRICS[name].only_shown]
    assert only_shown == [], "delete only_shown=True of these in metrics/catalogue.py"


@every_detector
def test_it_declares_itself_and_its_settings(kind: type[Detector]) -> None:
    """Every setting has a default that is possible and a meaning, two are there in any case."""
    testing.check_declarations(kind)
    assert {"enabled", "warmup_steps"} <= set(settings_of(kind))


# Each example goes to every detector: to draw one takes longer than to check it.
@given(values=any_stream)
@every_detector
def test_any_stream_of_floats_is_accepted_and_scored(
    kind: type[Detector], values: list[float]
) -> None:
    """It never raises, and its score is never NaN."""
    testing.check_any_stream(kind, values)


# MetricLostDetector is there to say that a metric stands still.
@given(value=st.floats(allow_nan=False, allow_infinity=False, min_value=0.06, max_value=0.09))
@over("kind", [kind for kind in CATALOGUE if kind is not MetricLostDetector])
def test_a_constant_is_silent(kind: type[Detector], value: float) -> None:
    """Nothing happens, so nothing is said."""
    testing.check_constant_is_silent(kind, value)


@every_detector
def test_a_level_that_was_accepted_stays_silent(kind: type[Detector]) -> None:
    """Because the detector has learnt it, or because it declares that its limit is fixed."""
    testing.check_accepted_level(kind)


@given(before=any_stream, after=any_stream)
@every_detector
def test_a_reset_forgets_everything(
    kind: type[Detector], before: list[float], after: list[float]
) -> None:
    """It then behaves as one just made."""
    testing.check_reset(kind, before, after)


@given(before=any_stream, after=any_stream)
@every_detector
def test_a_copy_and_a_pickle_continue_in_the_same_way(
    kind: type[Detector], before: list[float], after: list[float]
) -> None:
    """State is plain data."""
    testing.check_copies(kind, before, after)


@every_detector
def test_memory_is_bounded(kind: type[Detector]) -> None:
    """After the first windows, ten times as many steps take no more room."""
    testing.check_memory(kind)


@every_detector
def test_a_step_without_its_metric_is_skipped(kind: type[Detector]) -> None:
    """Other metrics are not its business."""
    testing.check_missing_metric(kind)
