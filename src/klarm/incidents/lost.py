"""Lost metrics: what an incident of missing or stuck metrics is named by, and since when."""

from __future__ import annotations

from klarm.incidents.recent_rows import RecentRows
from klarm.types import Alert

# What metric_lost calls them in its alerts, and what people read.
_LOST, _STUCK = "lost", "stuck"
_WORDS = {_LOST: "missing", _STUCK: "stuck"}
_MAX_NAMED = 2


def named_by_lost(alert: Alert) -> str:
    """Return what an incident that begins with this alert is named by; empty if nothing is lost.

    >>> named_by_lost(Alert("metric_lost", "warning", 9, "", {"lost": "kl", "stuck": ""}, ""))
    'missing kl'
    >>> named_by_lost(Alert("metric_lost", "warning", 9, "", {"lost": "a, b, c", "stuck": "d"}, ""))
    'missing a, b and 1 more, stuck d'
    """
    parts = []
    for kind, word in _WORDS.items():
        names = _names(alert, kind)
        if names:
            more = len(names) - _MAX_NAMED
            others = f" and {more} more" if more > 0 else ""
            parts.append(f"{word} {', '.join(names[:_MAX_NAMED])}{others}")
    return ", ".join(parts)


def lost_since(alert: Alert, recent: RecentRows) -> int:
    """Return the first step at which a metric was missing, or had the value that it is stuck at.

    If that is longer ago than the rows that are kept, the first of them counts.
    """
    since = [recent.missing_since(name) for name in _names(alert, _LOST)]
    since += [recent.unchanged_since(name) for name in _names(alert, _STUCK)]
    return min((step for step in since if step is not None), default=alert.step)


def _names(alert: Alert, kind: str) -> list[str]:
    listed = alert.metrics.get(kind, "")
    return listed.split(", ") if isinstance(listed, str) and listed else []
