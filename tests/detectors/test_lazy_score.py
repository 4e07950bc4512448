"""Scores that are made when asked for: they say what the detector's own verdict says."""

from __future__ import annotations

import random
from collections.abc import Callable

from cases import over
from klarm.detectors import CATALOGUE, Detector
from klarm.detectors.lazy_score import LazyScoreDetector

# From which score on each of them has an alert.
_ALERTS: dict[str, Callable[[float], bool]] = {
    "kl_budget": lambda score: score > 1.0,
    "kl_probe_budget": lambda score: score > 1.0,
    "clip_saturation": lambda score: score > 0.2,
    "entropy_collapse": lambda score: score >= 1.0,
    "length_blowup": lambda score: score > 1.0,
    "loss_explosion": lambda score: score > 10.0,
}


def _level(row: int) -> float:
    """Go up a hundredfold and stay there, then come back."""
    return 100.0 if 100 <= row < 200 else 1.0


def _series(detector: Detector, seed: int) -> list[float]:
    draw = random.Random(seed)
    noisy = [_level(row) * draw.uniform(0.8, 1.2) for row in range(300)]
    if detector.worse == "lower":
        return [2.0 / value for value in noisy]
    scale = {"kl": 0.1, "kl_probe": 0.1, "clip_fraction": 0.1}.get(detector.watches[0], 10.0)
    return [scale * value for value in noisy]


@over("kind", [k for k in CATALOGUE if issubclass(k, LazyScoreDetector)])
@over("seed", range(5))
def test_the_lazy_score_agrees_with_the_alert(kind: type[Detector], seed: int) -> None:
    """At every row, though the verdict comes from counting and the score from a median."""
    detector = kind()
    said = []
    for row, value in enumerate(_series(detector, seed)):
        alert = detector.update(row, {detector.watches[0]: value})
        assert (alert is not None) == _ALERTS[detector.name](detector.score), row
        said.append(alert is not None)
    assert any(said)
    assert not all(said[200:])


@over("kind", [k for k in CATALOGUE if issubclass(k, LazyScoreDetector)])
def test_before_the_first_value_the_score_is_0(kind: type[Detector]) -> None:
    """Nothing was seen, and nothing is far from what it should be."""
    assert kind().score == 0.0
