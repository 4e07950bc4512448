"""What the watched runs amount to: false alarms, recall and delay of every contender."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

from quality import oracle
from quality.contenders import Watched, contenders
from quality.generators import FAILURES, FAMILIES, HEALTHY, generate
from quality.scoring import (
    Estimate,
    delay,
    episode_starts,
    found_share,
    median,
    ninetieth,
    share,
    threshold_at,
)

# The false-alarm rate at which contenders are compared: of healthy runs with any alarm.
MATCHED_RATE = 0.04
# Healthy runs are too few to set the oracle to a rate outside these.
_ORACLE_RATES = (0.01, 0.5)


@dataclass(frozen=True)
class Result:
    """One run, and what every contender said of it."""

    kind: str
    seed: int
    family: str
    onset: int | None
    watched: Mapping[str, Watched]
    oracle: NDArray[np.float64] | None


@dataclass(frozen=True)
class Quiet:
    """How a contender fares on healthy runs."""

    contender: str
    runs: Estimate  # share with any alarm
    by_family: dict[str, Estimate]
    episodes_per_1000_rows: float
    time_in_alarm: float


@dataclass(frozen=True)
class Found:
    """How a contender fares on runs that fail in one way."""

    contender: str
    kind: str
    threshold: float | None  # None: its defaults
    healthy: Estimate  # share of healthy runs with any alarm, at the same threshold
    recall: Estimate
    delay: Estimate  # median, in rows
    delay_90: float
    time_in_alarm: float  # after the onset
    over_oracle: Estimate | None  # median of delay / the oracle's delay


def watch(task: tuple[str, int]) -> Result:
    """Make one run and let everybody watch it."""
    kind, seed = task
    run = generate(kind, seed)
    watched = {name: look(run.steps, run.kl) for name, look in contenders().items()}
    seen = oracle.scores(run, seed) if oracle.knows(run) else None
    return Result(kind, seed, run.family, run.onset, watched, seen)


class Summary:
    """Looks at the same results in every way that is reported."""

    def __init__(self, results: Sequence[Result], calibration: Sequence[Result]) -> None:
        self.names = list(results[0].watched)
        self.healthy = [result for result in results if result.kind == HEALTHY]
        self.failing = {
            kind: [result for result in results if result.kind == kind] for kind in FAILURES
        }
        self._calibration = calibration

    def quiet(self) -> list[Quiet]:
        """Return the false alarms of everybody, at their defaults."""
        return [self._quiet(name) for name in self.names]

    def found(self) -> list[Found]:
        """Return recall and delay at the defaults, of every kind of failure."""
        return [self._found(name, kind, None) for kind in FAILURES for name in self.names]

    def found_matched(self) -> list[Found]:
        """Return recall and delay at the same false-alarm rate, of who has a score to compare."""
        thresholds = {name: self._matched_threshold(name) for name in self._scored()}
        return [
            self._found(name, kind, threshold)
            for kind in FAILURES
            for name, threshold in thresholds.items()
        ]

    def curve(self, name: str, kind: str) -> list[tuple[float, float]]:
        """Return false-alarm rate and median delay at many thresholds of who has a score.

        A rate of 0 is put at half a run, so that it can be drawn on a logarithmic axis.
        """
        if name not in self._scored():
            return []
        points = {}
        for threshold in _thresholds(self._maxima(name, self.healthy)):
            delays = self._delays(name, kind, threshold)
            points[self._rate(name, threshold)] = median_only(delays)
        return sorted(points.items())

    def oracle_curve(self) -> list[tuple[float, float]]:
        """Return the same of the oracle, for explosions."""
        maxima = np.array([r.oracle.max() for r in self.healthy if r.oracle is not None])
        exploding = [r for r in self.failing["explosion"] if r.oracle is not None]
        points = {}
        for threshold in _thresholds(maxima):
            delays = [delay(r.oracle > threshold, r.onset) for r in exploding]
            rate = max(float((maxima > threshold).mean()), 0.5 / len(maxima))
            points[rate] = median_only(delays)
        return sorted(points.items())

    def default_point(self, name: str, kind: str) -> tuple[float, float]:
        """Return false-alarm rate and median delay as it comes."""
        return self._rate(name, None), median_only(self._delays(name, kind, None))

    def _scored(self) -> list[str]:
        first = self.healthy[0].watched
        return [name for name in self.names if first[name].score is not None]

    def _quiet(self, name: str) -> Quiet:
        alarms = [result.watched[name].alarm for result in self.healthy]
        rows = sum(len(alarm) for alarm in alarms)
        episodes = sum(len(episode_starts(alarm)) for alarm in alarms)
        return Quiet(
            contender=name,
            runs=_alarmed(name, self.healthy, None),
            by_family={
                family: _alarmed(name, [r for r in self.healthy if r.family == family], None)
                for family in FAMILIES
            },
            episodes_per_1000_rows=1_000 * episodes / rows,
            time_in_alarm=sum(int(alarm.sum()) for alarm in alarms) / rows,
        )

    def _found(self, name: str, kind: str, threshold: float | None) -> Found:
        delays = self._delays(name, kind, threshold)
        in_alarm = [
            _alarm(r.watched[name], threshold)[r.onset :].mean() for r in self.failing[kind]
        ]
        return Found(
            contender=name,
            kind=kind,
            threshold=threshold,
            healthy=_alarmed(name, self.healthy, threshold),
            recall=found_share(delays),
            delay=median(delays),
            delay_90=ninetieth(delays),
            time_in_alarm=float(np.mean(in_alarm)),
            over_oracle=self._over_oracle(name, kind, threshold, delays),
        )

    def _over_oracle(
        self, name: str, kind: str, threshold: float | None, delays: Sequence[float]
    ) -> Estimate | None:
        """Compare with the oracle, set to the false-alarm rate this contender has."""
        rate = _alarmed(name, self._calibration, threshold).value
        maxima = [r.oracle.max() for r in self._calibration if r.oracle is not None]
        limit = threshold_at(maxima, float(np.clip(rate, *_ORACLE_RATES)))
        ratios = []
        for result, own in zip(self.failing[kind], delays, strict=True):
            if result.oracle is not None and result.onset is not None:
                best = delay(result.oracle > limit, result.onset)
                if best < inf:
                    ratios.append(own / best)
        return median(ratios) if ratios else None

    def _delays(self, name: str, kind: str, threshold: float | None) -> list[float]:
        return [
            delay(_alarm(result.watched[name], threshold), result.onset or 0)
            for result in self.failing[kind]
        ]

    def _matched_threshold(self, name: str) -> float:
        return threshold_at(self._maxima(name, self._calibration), MATCHED_RATE)

    def _maxima(self, name: str, results: Sequence[Result]) -> list[float]:
        return [float(result.watched[name].score.max()) for result in results]

    def _rate(self, name: str, threshold: float | None) -> float:
        rate = _alarmed(name, self.healthy, threshold).value
        return max(rate, 0.5 / len(self.healthy))


def _thresholds(healthy_maxima: Sequence[float]) -> list[float]:
    """Return thresholds from what no healthy run passes to what nearly all do."""
    rates = np.geomspace(0.5 / len(healthy_maxima), 0.97, 24)
    return [threshold_at(healthy_maxima, rate) for rate in rates]


def median_only(delays: Sequence[float]) -> float:
    """Return the median delay, without its interval."""
    return float(np.sort(delays)[len(delays) // 2])


def _alarmed(name: str, results: Sequence[Result], threshold: float | None) -> Estimate:
    hits = sum(bool(_alarm(result.watched[name], threshold).any()) for result in results)
    return share(hits, len(results))


def _alarm(watched: Watched, threshold: float | None) -> NDArray[np.bool_]:
    if threshold is None:
        return watched.alarm
    return watched.score > threshold
