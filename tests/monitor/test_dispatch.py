"""The dispatch: its shortcuts change nothing, and one failing detector affects no other."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping

import pytest

from cases import over
from klarm import boundary
from klarm.detectors import CATALOGUE, Detector, KLExplosionDetector, KLNegativeDetector
from klarm.metrics import METRICS
from klarm.monitor.dispatch import Dispatch
from klarm.types import Alert


def wild_rows(seed: int, count: int = 400) -> Iterator[dict[str, float]]:
    """Yield rows that raise every kind of alert, with gaps, changing metrics and odd values."""
    draw = random.Random(seed)
    names = draw.sample(sorted(METRICS), 12)
    for row in range(count):
        if row % 97 == 96:
            names = draw.sample(sorted(METRICS), draw.randrange(1, len(METRICS)))
        present = [name for name in names if draw.random() > 0.02]
        size = 10.0 ** draw.choice((0, 0, 0, 0, 0, 1, 3)) * (1.0 + row // 150)
        values = {name: size * draw.lognormvariate(-2.0, 0.5) for name in present}
        if present and draw.random() < 0.03:
            values[draw.choice(present)] = draw.choice((math.nan, math.inf, -1e308, 0.0, -5.0))
        yield values


@over("seed", range(5))
def test_shortcuts_give_the_same_alerts_and_scores(seed: int) -> None:
    """Each detector is compared with one that gets every row by `update`, resets included."""
    detectors, plain = [kind() for kind in CATALOGUE], [kind() for kind in CATALOGUE]
    dispatch = Dispatch(detectors, lambda *_: None)
    found = 0
    for step, values in enumerate(wild_rows(seed)):
        if step % 151 == 150:  # as when a level is accepted as normal
            for at in (0, 1, step % len(detectors)):
                detectors[at].reset()
                plain[at].reset()
        expected = [alert for d in plain if (alert := d.update(step, values)) is not None]
        assert repr(dispatch.alerts(step, values)) == repr(expected)  # NaN is not equal to itself
        assert [d.score for d in detectors] == pytest.approx([d.score for d in plain], nan_ok=True)
        found += len(expected)
    assert found > 10


def test_once_they_have_enough_values_detectors_are_called_directly() -> None:
    """Otherwise the test above compares nothing."""
    detectors = [kind() for kind in CATALOGUE]
    dispatch = Dispatch(detectors, lambda *_: None)
    for step in range(150):
        dispatch.alerts(step, dict.fromkeys(METRICS, 0.1 + step % 7 / 100))
    called = [method.__name__ for method in dispatch._methods]
    direct = {m.__self__.name for m in dispatch._methods if m.__name__ == "_observe"}  # type: ignore[attr-defined]
    assert called.index("_observe") > called.index("_note")
    assert {"kl_explosion", "kl_runaway", "entropy_collapse", "gradient_norm_spike"} <= direct
    explosion = next(d for d in detectors if isinstance(d, KLExplosionDetector))
    explosion.reset()
    dispatch.alerts(150, dict.fromkeys(METRICS, 50.0))
    assert explosion.score == 0.0  # it warms up again, and says nothing


class _Failing(KLNegativeDetector):
    """A detector of somebody else, which fails with every tenth value."""

    calls = 0

    def update(self, step: int, metrics: Mapping[str, float]) -> Alert | None:
        self.calls += 1
        if step % 10 == 9:
            raise ValueError(step)
        return super().update(step, metrics)


def test_a_detector_that_fails_affects_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also not if it is one of klarm's own, called directly."""
    monkeypatch.setattr(boundary, "raise_failures", False)
    failed: list[str] = []
    others: list[Detector] = [_Failing(), KLExplosionDetector(), KLNegativeDetector()]
    broken = KLExplosionDetector()
    dispatch = Dispatch([broken, *others], lambda name, _: failed.append(name))
    for step in range(150):
        dispatch.alerts(step, {"kl": 0.1 + step % 7 / 100})
    assert failed == ["kl_negative"] * 15
    del broken._moments
    alerts = dispatch.alerts(150, {"kl": 50.0})
    assert failed[15:] == ["kl_explosion"]
    assert [alert.detector for alert in alerts] == ["kl_explosion"]
    assert others[0].calls == 151  # type: ignore[attr-defined]
