"""Whether a run was watched at all, and its KL: "no incident" means little if nothing was."""

from __future__ import annotations

from collections.abc import Iterable

from klarm.detectors import CATALOGUE
from klarm.journal import Activity, Fold
from klarm.metrics import KLS, PROBE

_READS = {kind.name: () if kind.watches_all else kind.reads for kind in CATALOGUE}
# The first step of a run may be logged in several calls, and some trainers have made no update by
# then.
_MIN_STEPS = 2
_MAX_NAMED = 5


def without_kl(metrics: Iterable[str]) -> str:
    """Return what to add to "no incident" if none of the metrics of a run is a KL.

    >>> without_kl(["reward", "kl_old"]), without_kl(["reward"])
    ('', '; no KL was watched')
    """
    return "; no KL was watched" if {*KLS, *PROBE}.isdisjoint(metrics) else ""


def not_watched(fold: Fold, logged: Iterable[str], activity: Activity) -> str:
    """Return a clause if no detector reads what a run logs; empty if one does or may do so."""
    why = why_not_watched(fold, logged, activity)
    verb = "is" if activity == "training" else "was"
    return f"nothing {verb} watched: {why}" if why else ""


def why_not_watched(fold: Fold, logged: Iterable[str], activity: Activity) -> str:
    """Return why no detector reads what a run logs; empty if one does or may do so."""
    if fold.steps < (_MIN_STEPS if activity == "training" else 1):
        return ""
    # What detectors of the user's own read is not recorded.
    if not fold.detectors or not fold.detectors <= _READS.keys():
        return ""
    names = sorted(set(logged))
    known = fold.origins.keys() | set(names)
    if any(not known.isdisjoint(_READS[detector]) for detector in fold.detectors):
        return ""
    if not names:
        return "no numbers are logged"
    named, rest = ", ".join(names[:_MAX_NAMED]), len(names) - _MAX_NAMED
    more = f" and {rest} more" if rest > 0 else ""
    return f"no detector knows any of {named}{more}"
