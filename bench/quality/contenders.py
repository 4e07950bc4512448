"""The contenders: the specified rule, rlwatch, each KL detector of klarm, and klarm as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from math import inf

import numpy as np
from numpy.typing import NDArray
from rlwatch.config import KLExplosionConfig
from rlwatch.detectors import KLExplosionDetector as PeerDetector

from klarm import boundary
from klarm.config.layers import load
from klarm.detectors import CATALOGUE, Detector, KLExplosionDetector
from klarm.journal.file import MemoryJournal
from klarm.monitor.monitor import Monitor
from klarm.types import Event

KLARM = "klarm, open incident on kl"
# So low that rlwatch reports its z-score at every row; NaN passes no threshold.
_ALWAYS = -1e12
_PEER_SIGMAS = KLExplosionConfig().sigma_multiplier
# One update moves the policy less far than all of them together: detectors of the KL to the old
# policy are fed the same runs at a tenth of the level.
_LEVELS = {"kl": 1.0, "kl_old": 0.1}


@dataclass(frozen=True)
class Watched:
    """The scores and alarms of a contender on a run, row by row."""

    alarm: NDArray[np.bool_]
    score: NDArray[np.float32] | None  # None: there is no one threshold to move


Row = tuple[int, Mapping[str, float]]
Contender = Callable[[NDArray[np.int64], NDArray[np.float64]], Watched]


def contenders() -> dict[str, Contender]:
    """Return the contenders by name; new KL detectors are included automatically."""
    found: dict[str, Contender] = {
        "specified, rolling": partial(specified, mode="rolling"),
        "specified, frozen": partial(specified, mode="frozen"),
        "rlwatch": rlwatch,
    }
    for kind in CATALOGUE:
        if kind.watches[0] in _LEVELS and kind.signal == "kl" and kind is not KLExplosionDetector:
            found[kind.name] = partial(alone, kind=kind)
    return {**found, KLARM: default_configuration}


def specified(steps: NDArray[np.int64], kl: NDArray[np.float64], mode: str) -> Watched:  # noqa: ARG001
    """Watch with the z rule, at its 3 sigma."""
    detector = KLExplosionDetector(baseline_mode=mode)
    score = detector.scores(kl)
    return Watched(score > detector.sigma_multiplier, score.astype(np.float32))


def rlwatch(steps: NDArray[np.int64], kl: NDArray[np.float64]) -> Watched:
    """Watch with rlwatch's KL detector."""
    detector = PeerDetector(KLExplosionConfig(sigma_multiplier=_ALWAYS))
    score = np.full(len(kl), -inf, dtype=np.float32)
    with np.errstate(all="ignore"):
        for row, (step, value) in enumerate(zip(steps.tolist(), kl.tolist(), strict=True)):
            said = detector.check(step, value)
            if said is not None:
                score[row] = said.metric_values["z_score"]
    return Watched(score > _PEER_SIGMAS, score)


def alone(steps: NDArray[np.int64], kl: NDArray[np.float64], kind: type[Detector]) -> Watched:
    """Watch with one detector at its defaults: an alarm is an alert of its own."""
    detector, metric = kind(), kind.watches[0]
    alarm, score = [], []
    for step, value in zip(steps.tolist(), (kl * _LEVELS[metric]).tolist(), strict=True):
        alarm.append(detector.update(step, {metric: value}) is not None)
        score.append(detector.score)
    with np.errstate(over="ignore"):
        return Watched(np.array(alarm), np.array(score, dtype=np.float32))


def default_configuration(steps: NDArray[np.int64], kl: NDArray[np.float64]) -> Watched:
    """Watch with all detectors as they come: an alarm is an open incident on KL."""
    rows = ({"kl": value} for value in kl.tolist())
    alarm = ["kl" in signals for signals in open_signals(zip(steps.tolist(), rows, strict=True))]
    return Watched(np.array(alarm), None)


def default_detectors() -> list[Detector]:
    """Return the detectors of the default configuration."""
    return load(recorded={}).detectors()


def open_signals(
    rows: Iterable[Row], detectors: list[Detector] | None = None
) -> Iterator[frozenset[str]]:
    """Run the monitor, by default as it comes; give the signals with an open incident, by row."""
    monitor = _monitor(detectors=detectors)
    for step, metrics in rows:
        monitor.log(metrics, step)
        yield frozenset(known.signal for known in monitor.incidents if known.state == "open")
    monitor.finish()


@dataclass(frozen=True)
class Notification:
    """What people would have been notified of: an incident that opened or escalated."""

    row: int
    event: str
    signal: str
    severity: str
    detector: str  # whose words they read
    pattern: str  # of the playbook


def notified(
    rows: Iterable[Row], framework: str = "", detectors: list[Detector] | None = None
) -> list[Notification]:
    """Run the monitor, by default as it comes; return what people would have been notified of."""
    monitor, notifications, row = _monitor(framework, detectors), [], 0

    def note(event: Event) -> None:
        if event.event in ("opened", "escalated"):
            notifications.append(
                Notification(
                    row,
                    event.event,
                    event.signal,
                    event.severity,
                    event.detector,
                    event.pattern,
                )
            )

    monitor.on_event.append(note)
    for row, (step, metrics) in enumerate(rows):  # noqa: B007  # `note` reads it
        monitor.log(metrics, step)
    monitor.finish()
    return notifications


def _monitor(framework: str = "", detectors: list[Detector] | None = None) -> Monitor:
    boundary.raise_failures = True  # a monitor that failed silently would look quiet
    config = load(recorded={})
    return Monitor(
        "quality",
        config.detectors() if detectors is None else detectors,
        MemoryJournal(),
        rules=config.incident_rules(),
        framework=framework,
    )
