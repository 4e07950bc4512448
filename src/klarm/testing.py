"""Tools to test your own detectors and channels: feed a series, get alerts, check the contract.

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
from klarm.wording import MissingFactError, sentence_of

# What a healthy metric may look like: a level, and a little noise on it.
_LEVEL, _NOISE = 0.07, 0.001


def alerts_of(
    detector: Detector, series: Iterable[float | Mapping[str, float]], first_step: int = 0
) -> list[Alert]:
    """Return the alerts of a detector for a series of steps.

    Each entry is a value of the first metric in `watches`, or a mapping with several metrics. The
    detector keeps what it has learnt from earlier calls: make a new one for a new run.
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
    """Return the events of the incidents that open, escalate, settle and resolve.

    The series is watched by this detector alone, and nothing is written to disk.
    """
    journal, events = MemoryJournal(), list[Event]()
    with Monitor("test", [detector], journal, rules=IncidentRules()) as monitor:
        monitor.on_event.append(events.append)
        for step, entry in enumerate(series, first_step):
            row = entry if isinstance(entry, Mapping) else {detector.watches[0]: entry}
            monitor.log(row, step)
    return events


def check_detector(make: Callable[[], Detector], seed: int = 0, *, level: float = _LEVEL) -> None:
    """Raise AssertionError if a detector breaks a rule that klarm relies on.

    `make` returns a new detector, so it may be the class. `level` is a healthy value of its metric.
    klarm's own detectors pass the same checks: no stream of values raises, a constant causes no
    alert, a level that was accepted stays silent, a reset forgets everything, copies and pickles
    behave like the original, memory is bounded, and a step without the metric is skipped.
    """
    check_declarations(make)
    noise = random.Random(seed)
    for _ in range(20):
        check_any_stream(make, _odd_stream(noise))
        check_reset(make, _odd_stream(noise), _odd_stream(noise))
        check_copies(make, _odd_stream(noise), _odd_stream(noise))
    check_constant_is_silent(make, level)
    check_accepted_level(make)
    check_memory(make)
    check_missing_metric(make)


def check_declarations(make: Callable[[], Detector]) -> None:
    """Check the attributes of its class, and that every setting has a default and a meaning."""
    kind = type(make())
    problem = detector_problem(kind)
    assert not problem, problem
    declared = settings_of(kind)
    for setting in declared.values():
        assert setting.check(setting.default) == setting.default, (
            f"{kind.__name__}.{setting.name} has an invalid default"
        )
        assert setting.meaning, f"{kind.__name__}.{setting.name} has no description"


def check_any_stream(make: Callable[[], Detector], values: Iterable[float]) -> None:
    """Check that no floats make it raise, lack a fact for its sentence, or score NaN."""
    detector = make()
    for step, value in enumerate(values):
        alert = detector.update(step, {detector.watches[0]: value})
        check_sentence(alert)
        assert not math.isnan(detector.score), f"the score of {value} at step {step} is NaN"


def check_sentence(alert: Alert | None) -> None:
    """Check that an alert has all facts that its sentence needs."""
    try:
        _ = "" if alert is None else sentence_of(alert)
    except MissingFactError as error:
        raise AssertionError(
            f"its sentence needs the fact {error}, which is not in the alert: pass it to _alert"
        ) from None


def check_constant_is_silent(make: Callable[[], Detector], value: float) -> None:
    """Check that a constant metric causes no alert."""
    alerts = alerts_of(make(), [value] * 300)
    assert not alerts, f"a constant value of {value:g} causes an alert: {alerts[0].message}"


def check_accepted_level(make: Callable[[], Detector]) -> None:
    """Check that an incident whose level somebody has accepted as normal does not open again.

    A detector learns the accepted level, so a constant must not cause an alert. A fixed limit does
    not learn, so the detector must declare it.
    """
    kind = type(make())
    if kind.has_fixed_limit or kind.recovery == "quiet":  # then no level is accepted
        return
    sizes = [10.0**power for power in range(-4, 7)]
    for level in [0.0, *sizes, *(-size for size in sizes)]:
        alerts = alerts_of(make(), [level] * 300)
        assert not alerts, (
            f"a constant value of {level:g} causes an alert: its limit is "
            f"fixed, so declare has_fixed_limit: ClassVar[bool] = True in {kind.__name__}; "
            "otherwise an incident that was accepted opens again"
        )


def check_reset(
    make: Callable[[], Detector], before: Iterable[float], after: Iterable[float]
) -> None:
    """Check that a reset forgets everything: all state must be created in `_start`."""
    used, after = make(), list(after)
    alerts_of(used, before)
    used.reset()
    assert repr(alerts_of(used, after)) == repr(alerts_of(make(), after)), (
        "it remembers something after a reset: create all state in _start"
    )


def check_copies(
    make: Callable[[], Detector], before: Iterable[float], after: Iterable[float]
) -> None:
    """Check that a copy and a pickle behave like the original: state must be plain data."""
    original, after = make(), list(after)
    alerts_of(original, before)
    twins = [copy.deepcopy(original), pickle.loads(pickle.dumps(original))]
    expected = repr(alerts_of(original, after))
    for twin in twins:
        assert repr(alerts_of(twin, after)) == expected, "a copy does not behave like its original"


def check_memory(make: Callable[[], Detector]) -> None:
    """Check that its state stops growing once its windows are full."""
    detector = make()
    alerts_of(detector, (_LEVEL + _NOISE * (i % 17) for i in range(2_000)))
    before = len(pickle.dumps(detector))
    alerts_of(detector, (_LEVEL + _NOISE * (i % 17) for i in range(20_000)))
    after = len(pickle.dumps(detector))
    assert after <= before + 64, f"its state grows with every step: {before} to {after} bytes"


def check_missing_metric(make: Callable[[], Detector]) -> None:
    """Check that a step without its metric is skipped."""
    detector = make()
    assert detector.update(0, {}) is None, "it raises an alert at a step without any metric"
    assert detector.update(1, {"something/else": math.nan}) is None, (
        "it raises an alert because of a metric that it does not watch"
    )


def example_message(
    severity: Severity = "critical", signal: str = "kl", run: str = "test"
) -> Message:
    """Return the message that a channel gets when an incident opens, to test `send` with."""
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
    """Return a steady series with jumps, NaN, infinities and huge values, as a run may have it."""
    odd = [math.nan, math.inf, -math.inf, 0.0, -0.0, -1.0, 1e300, -1e300, 5e-324, 50.0]
    return [
        noise.choice(odd) if noise.random() < 0.1 else noise.gauss(_LEVEL, 10 * _NOISE)
        for _ in range(noise.randrange(150))
    ]
