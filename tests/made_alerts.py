"""Alerts that no detector has raised, for tests of what happens to alerts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from klarm.types import Alert, Severity


def made_alert(
    metrics: Mapping[str, Any],
    severity: Severity = "critical",
    step: int = 3,
    detector: str = "kl_explosion",
    **more: Any,
) -> Alert:
    """Return an alert on the first of the metrics, which may be NaN."""
    first = next(iter(metrics.values()))
    if isinstance(first, float) and not math.isfinite(first):
        more["worse"] = "not_finite"
    return Alert(
        detector=detector,
        severity=severity,
        step=step,
        metric=next(iter(metrics)),
        metrics=dict(metrics),
        **more,
    )
