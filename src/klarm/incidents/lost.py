"""Lost metrics: what an incident of missing or stuck metrics is named by, and since when."""

from __future__ import annotations

from klarm.incidents.recent_rows import RecentRows
from klarm.types import Alert

_MAX_NAMED = 2


def named_by_lost(alert: Alert) -> str:
    """Return what an incident that begins with this alert is named by; empty if nothing is lost.

    >>> lost = {"worse": "missing", "metric": "a", "names": ("a", "b", "c", "d")}
    >>> numbers = {"a rows": 50.0, "b rows": 50.0, "c rows": 50.0, "d rows": 50.0}
    >>> named_by_lost(
    ...     Alert(detector="metric_lost", severity="warning", step=9, metrics=numbers, **lost)
    ... )
    'missing a, b and 2 more'
    """
    parts = []
    for word, names in (("missing", _missing(alert)), ("stuck", _stuck(alert))):
        if names:
            more = len(names) - _MAX_NAMED
            others = f" and {more} more" if more > 0 else ""
            parts.append(f"{word} {', '.join(names[:_MAX_NAMED])}{others}")
    return ", ".join(parts)


def lost_since(alert: Alert, recent: RecentRows) -> int:
    """Return the first step at which a metric was missing, or had the value that it is stuck at.

    If that is longer ago than the rows that are kept, the first of them counts.
    """
    since = [recent.missing_since(name) for name in _missing(alert)]
    since += [recent.unchanged_since(name) for name in _stuck(alert)]
    return min((step for step in since if step is not None), default=alert.step)


def _stuck(alert: Alert) -> list[str]:
    return [name for name in alert.names if f"{name} stuck at" in alert.metrics]


def _missing(alert: Alert) -> list[str]:
    return [name for name in alert.names if f"{name} stuck at" not in alert.metrics]
