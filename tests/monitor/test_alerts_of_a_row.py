"""The alerts of a row: one failing detector affects no other."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from klarm import boundary
from klarm.detectors import Detector, KLExplosionDetector, KLNegativeDetector
from klarm.incidents import IncidentRules
from klarm.metrics import Origin
from klarm.monitor.evaluator import Evaluator
from klarm.types import Alert


class _Failing(KLNegativeDetector):
    """A detector of somebody else, which fails with every tenth value."""

    calls = 0

    def update(self, step: int, metrics: Mapping[str, float]) -> Alert | None:
        self.calls += 1
        if step % 10 == 9:
            raise ValueError(step)
        return super().update(step, metrics)


def test_a_detector_that_fails_affects_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each failure is reported with its name."""
    monkeypatch.setattr(boundary, "raise_failures", False)
    failed: list[str] = []
    failing, broken = _Failing(), KLExplosionDetector()
    detectors: list[Detector] = [broken, failing, KLExplosionDetector()]
    evaluator = Evaluator(
        detectors, IncidentRules(), on_failure=lambda name, _: failed.append(name)
    )
    evaluator.bind({"kl": Origin("kl")})
    for step in range(150):
        evaluator.look(step, {"kl": 0.1 + step % 7 / 100})
    assert failed == ["kl_negative"] * 15
    del broken._moments
    alerts, _ = evaluator.look(150, {"kl": 50.0})
    assert failed[15:] == ["kl_explosion"]
    assert [alert.detector for alert in alerts] == ["kl_explosion"]
    assert failing.calls == 151
