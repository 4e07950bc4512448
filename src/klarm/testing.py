"""Testing detectors and channels of your own: feed a series, get alerts; check the contract.

>>> from klarm.detectors import KLExplosionDetector
>>> alerts_of(KLExplosionDetector(), [0.020, 0.021] * 20 + [0.9])[0].step
40
"""

from __future__ import annotations

import copy
import math
import pickle
import random
from collections.abc import Callable, Iterable, Mapping

from klarm.channels.message import Context, Message, message_of
from klarm.detectors import Detector, detector_problem
from klarm.incidents import IncidentRules
from klarm.journal import MemoryJournal
from klarm.monitor import Monitor
from klarm.settings import settings_of
from klarm.types import Alert, Event, Severity

# What a healthy metric may look like: a level, and a little noise on it.
_LEVEL, _NOISE = 0.07, 0.001


def alerts_of(
    detector: Detector, series: Iterable[float | Mapping[str, float]], first_step: int = 0
) -> list[Alert]:
    """Return what a detector says of a series, step by step.

    A number is the metric that it watches first; a mapping is a row of several. The detector goes
    on from what it has seen before: make a new one for a new run.
    """
    alerts = []
    for step, entry in enumerate(series, first_step):
        row = entry if isinstance(entry, Mapping) else {detector.watches[0]: entry}
        alert = detector.update(step, row)
        if alert is not None:
            alerts.append(alert)
    return alerts


def events_of(
    detector: Detector, series: Iterable[float | Mapping[str, float]], first_step: int = 0
) -> list[Event]:
    """Return what becomes of its alerts: the incidents that open, escalate, settle and resolve.

    As in a run that is watched by this detector alone. Nothing is written.
    """
    journal, told = MemoryJournal(), list[Event]()
    with Monitor("test", [detector], journal, rules=IncidentRules()) as monitor:
        monitor.on_event.append(told.append)
        for step, entry in enumerate(series, first_step):
            row = entry if isinstance(entry, Mapping) else {detector.watches[0]: entry}
            monitor.log(row, step)
    return told


def check_detector(make: Callable[[], Detector], seed: int = 0, *, level: float = _LEVEL) -> None:
    """Raise AssertionError if a detector does not keep what klarm relies on.

    `make` returns a new one; a class will do. `level` is a healthy value of its metric. These are
    the checks that klarm's own detectors pass: any stream is taken, a constant is silent, a reset
    forgets everything, copies and pickles go on alike, memory is bounded, and a step without its
    metric is passed over.
    """
    check_declarations(make)
    noise = random.Random(seed)
    for _ in range(20):
        check_any_stream(make, _odd_stream(noise))
        check_reset(make, _odd_stream(noise), _odd_stream(noise))
        check_copies(make, _odd_stream(noise), _odd_stream(noise))
    check_constant_is_silent(make, level)
    check_memory(make)
    check_missing_metric(make)


def check_declarations(make: Callable[[], Detector]) -> None:
    """Check what a detector says of itself, and that every setting has a default and a meaning."""
    kind = type(make())
    problem = detector_problem(kind)
    assert not problem, problem
    declared = settings_of(kind)
    for setting in declared.values():
        assert setting.check(setting.default) == setting.default, (
            f"{kind.__name__}.{setting.name} has a default that is not possible"
        )
        assert setting.meaning, f"{kind.__name__}.{setting.name} does not say what it means"


def check_any_stream(make: Callable[[], Detector], values: Iterable[float]) -> None:
    """Check that it takes any floats without raising, and that its score is never NaN."""
    detector = make()
    for step, value in enumerate(values):
        detector.update(step, {detector.watches[0]: value})
        assert not math.isnan(detector.score), f"the score of {value} at step {step} is NaN"


def check_constant_is_silent(make: Callable[[], Detector], value: float) -> None:
    """Check that nothing is said of a metric that does not move."""
    alerts = alerts_of(make(), [value] * 300)
    assert not alerts, f"a constant of {value:g} raises an alert: {alerts[0].message}"


def check_reset(
    make: Callable[[], Detector], before: Iterable[float], after: Iterable[float]
) -> None:
    """Check that a reset makes it like a new one: all state must be made in `_start`."""
    used, after = make(), list(after)
    alerts_of(used, before)
    used.reset()
    assert repr(alerts_of(used, after)) == repr(alerts_of(make(), after)), (
        "it remembers something across a reset: make all state in _start"
    )


def check_copies(
    make: Callable[[], Detector], before: Iterable[float], after: Iterable[float]
) -> None:
    """Check that a copy and a pickle go on as the original does: state must be plain data."""
    original, after = make(), list(after)
    alerts_of(original, before)
    twins = [copy.deepcopy(original), pickle.loads(pickle.dumps(original))]
    expected = repr(alerts_of(original, after))
    for twin in twins:
        assert repr(alerts_of(twin, after)) == expected, "a copy does not go on like its original"


def check_memory(make: Callable[[], Detector]) -> None:
    """Check that ten times as many steps take no more room, once windows are full."""
    detector = make()
    alerts_of(detector, (_LEVEL + _NOISE * (i % 17) for i in range(2_000)))
    before = len(pickle.dumps(detector))
    alerts_of(detector, (_LEVEL + _NOISE * (i % 17) for i in range(20_000)))
    after = len(pickle.dumps(detector))
    assert after <= before + 64, f"its state grows with every step: {before} to {after} bytes"


def check_missing_metric(make: Callable[[], Detector]) -> None:
    """Check that a step without its metric is passed over."""
    detector = make()
    assert detector.update(0, {}) is None, "it says something of a step without any metric"
    assert detector.update(1, {"something/else": math.nan}) is None, (
        "it says something of a metric that it does not watch"
    )


def example_message(
    severity: Severity = "critical", signal: str = "kl", run: str = "test"
) -> Message:
    """Return what a channel is given when an incident opens, to try `send` with."""
    event = Event(
        event="opened",
        incident=1,
        signal=signal,
        severity=severity,
        step=154,
        started=150,
        detectors=["kl_explosion"],
        peak=0.31,
        reason="confirmed",
        message="KL 0.31 is 9.2σ above its rolling baseline of 0.011 ± 0.0123.",
        recommendation="Lower the learning rate or raise the KL penalty.",
        id="test0001",
        metric="kl",
        rows=5,
    )
    values = [(step, 0.01 + 0.06 * max(0, step - 149)) for step in range(100, 155)]
    return message_of(event, Context(run=run, now=1_763_200_000.0, values=values))


def _odd_stream(noise: random.Random) -> list[float]:
    """Return a series as a run may have it: steady, with leaps, NaN, infinities and huge values."""
    odd = [math.nan, math.inf, -math.inf, 0.0, -0.0, -1.0, 1e300, -1e300, 5e-324, 50.0]
    return [
        noise.choice(odd) if noise.random() < 0.1 else noise.gauss(_LEVEL, 10 * _NOISE)
        for _ in range(noise.randrange(150))
    ]
