"""Detectors that are fed a series: what they say at each step."""

from __future__ import annotations

from collections.abc import Iterable

from klarm.detectors import Detector
from klarm.types import Alert, Severity


def feed(detector: Detector, values: Iterable[float]) -> list[Alert | None]:
    """Return what a detector says of each value of its metric, from step 0 on."""
    metric = detector.watches[0]
    return [detector.update(step, {metric: value}) for step, value in enumerate(values)]


def severities(alerts: Iterable[Alert | None]) -> dict[int, Severity]:
    """Return the severity of each alert, by step."""
    return {step: alert.severity for step, alert in enumerate(alerts) if alert}
