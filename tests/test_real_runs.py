"""Real runs from public repositories, where their folder is at hand: read, and agreed on."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from klarm.analysis.replay import replay
from klarm.config.layers import load
from klarm.detectors import KLExplosionDetector
from klarm.metrics.numbers import to_number
from klarm.sources import read_log

RUNS = Path(__file__).parents[2] / "shared" / "data" / "real-runs" / "runs"

pytestmark = pytest.mark.skipif(not RUNS.is_dir(), reason="no real runs beside the project")


@pytest.mark.parametrize("mode", ["rolling", "frozen"])
def test_stream_and_series_agree_on_every_real_run(mode: str) -> None:
    """Bit for bit; and every run is read to its end."""
    paths = sorted(RUNS.glob("*.csv"))
    assert paths
    for path in paths:
        with path.open() as file:
            values = [to_number(row["kl"]) for row in csv.DictReader(file)]
        kl = np.array([value for value in values if value is not None])
        detector = KLExplosionDetector(baseline_mode=mode)
        streamed = []
        for step, value in enumerate(kl):
            detector.update(step, {"kl": float(value)})
            streamed.append(detector.score)
        np.testing.assert_array_equal(detector.scores(kl), np.array(streamed))


@pytest.mark.parametrize("every", [25, pytest.param(1, marks=pytest.mark.slow)])
def test_every_real_run_can_be_replayed(every: int) -> None:
    """Whatever their columns and steps."""
    for path in sorted(RUNS.glob("*.csv"))[::every]:
        found = replay(read_log(path, print), lambda _: load(recorded={}))
        assert found.steps > 0
        assert "kl_explosion" in found.watched
