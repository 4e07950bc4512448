"""Says why metrics are not watched, and what the user can do about it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence

from klarm.detectors import Detector
from klarm.metrics import (
    METRICS,
    OTHER_LOSS,
    SECTION,
    Binding,
    frameworks_with,
    why_missing_in,
)
from klarm.settings import did_you_mean

# So many keys of the run are named.
_MAX_KEYS_NAMED = 10
_EXAMPLE = ("kl", "COLUMN")


def hints(detectors: Iterable[Detector], binding: Binding, *, from_log: bool = False) -> list[str]:
    """Return what the user can do about metrics that are not watched, one line each.

    `from_log` is for a log that a command reads: the remedies are options of that command.
    """
    found = []
    missing = {name: None for name, said in binding.user_keys.items() if said.key}
    for detector in detectors:
        if not detector.enabled or detector.watches_all or is_of_probe(detector):
            continue
        if detector.idle_because:
            found.append(f"{detector.name} is idle: {detector.idle_because}")
        if (binding.keys.keys() - {OTHER_LOSS}).isdisjoint(detector.reads):
            missing[detector.watches[0]] = None
    for metric in missing:
        if metric not in binding.keys:
            reason = why_missing(metric, binding, from_log=from_log)
            if reason != _missing(metric):
                found.append(reason)
    return [*found, *binding.not_measured.values()]


def why_missing(metric: str, binding: Binding, *, from_log: bool = False) -> str:
    """Return why a metric is not read, and the remedy if one is known."""
    if metric in binding.unreadable:
        return binding.unreadable[metric]
    said = binding.user_keys.get(metric)
    if said is not None and said.key:
        near = did_you_mean(said.key, binding.names())
        return f"{SECTION}.{metric} names {said.key}, which is not logged{near}"
    reason = _missing(metric)
    for name in binding.names():
        if name not in METRICS and (frameworks := frameworks_with(name, metric)):
            where = ", ".join(frameworks)
            remedy = "use --set framework=..." if from_log else "set framework=..."
            return f"{reason} ({name} is {metric} in {where}: {remedy})"
    known = METRICS.get(metric)
    if known is None:  # a metric of a detector of the user's own: it is read by its name
        return reason + did_you_mean(metric, binding.names())
    for other in known.unlike:
        if other in binding.keys:
            return f"{reason} ({binding.keys[other]} is another quantity: {METRICS[other].meaning})"
    read = {key for name, key in binding.keys.items() if name != OTHER_LOSS}
    alike = [name for name in binding.names() if name not in read and _is_alike(metric, name)]
    if alike:
        remedy = f"log it as {metric} or set {SECTION}.{metric}: {alike[0]}"
        if from_log:
            remedy = f"use --map {shlex.quote(f'{metric}={alike[0]}')}"
        return f"{reason}; if {alike[0]} is that ({known.meaning}), {remedy}"
    framework = binding.framework
    why = why_missing_in(framework, metric) if framework else known.when_missing
    if not why:
        return reason
    is_unknown = known.target and not binding.framework and set(binding.names()) - METRICS.keys()
    name_it = f"use --map {metric}=NAME" if from_log else f"set {SECTION}.{metric}: NAME"
    hint = f"; if one of your metrics is a KL, {name_it}" if is_unknown else ""
    return f"{reason} ({why}){hint}"


def nothing_known(binding: Binding) -> str:
    """Return the message that no detector reads what a run logs, with the keys it logs."""
    names = binding.names()
    if not names:
        return "none of the logged values is a number"
    return f"no detector knows any of the metrics that are logged: {_listed(names)}"


def unknown_columns(binding: Binding) -> str:
    """Describe a log in which no detector knows anything, and what to do about it."""
    names = sorted(binding.names())
    alike = [
        (metric, name)
        for metric in METRICS.keys() - binding.keys.keys()
        for name in names
        if _is_alike(metric, name)
    ]
    metric, column = min(alike, key=lambda pair: [*METRICS].index(pair[0]), default=_EXAMPLE)
    mapping = shlex.quote(f"{metric}={column}")
    hint = f"; say which column is which with --map {mapping}" if names else ""
    return f"it holds {_listed(names) or 'no numbers'}{hint}"


def is_of_probe(detector: Detector) -> bool:
    """Return whether it reads what klarm's own probe measures, if somebody uses it."""
    metric = METRICS.get(detector.watches[0])
    return metric is not None and metric.by_probe


def _listed(names: Sequence[str]) -> str:
    more = ", ..." if len(names) > _MAX_KEYS_NAMED else ""
    return f"{', '.join(names[:_MAX_KEYS_NAMED])}{more}"


def _is_alike(metric: str, name: str) -> bool:
    return metric in re.split(r"[^a-z]+", name.lower())


def _missing(metric: str) -> str:
    return f"no {metric} is logged"
