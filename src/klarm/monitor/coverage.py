"""Which metrics of a run are watched, from which keys, and which detectors have nothing to read."""

from __future__ import annotations

from collections.abc import Iterable

from klarm.detectors import Detector
from klarm.metrics import Binding
from klarm.monitor.missing import is_of_probe, why_missing

# So many metrics that are not logged are named with their detectors.
_MAX_METRICS_NAMED = 4
_ALL = "all of them"


def idle(detectors: Iterable[Detector], binding: Binding) -> dict[str, str]:
    """Return the detectors that are off or have nothing to read, and why."""
    reasons = {}
    for detector in detectors:
        if not detector.enabled:
            reasons[detector.name] = "off (enabled: false)"
        elif detector.idle_because:
            reasons[detector.name] = f"idle: {detector.idle_because}"
        elif detector.watches_all:
            if not binding.keys:
                reasons[detector.name] = "idle: klarm does not know any metric that is logged"
        elif binding.keys.keys().isdisjoint(detector.reads):
            reasons[detector.name] = f"idle: {why_missing(detector.watches[0], binding)}"
    return reasons


def watched(detectors: Iterable[Detector], binding: Binding) -> list[str]:
    """Return the detectors that judge a metric. Noticing missing metrics is not judging."""
    detectors = list(detectors)
    resting = idle(detectors, binding)
    return [d.name for d in detectors if d.name not in resting and not d.watches_all]


def watched_lines(detectors: Iterable[Detector], binding: Binding) -> list[str]:
    """Return one line per watched metric: its key, its kind and its detectors."""
    return [f"{what}: {', '.join(names)}" for what, names in _readers(detectors, binding).items()]


def watched_in_short(detectors: Iterable[Detector], binding: Binding) -> str:
    """Return the watched metrics, with key and kind, in one line."""
    read = [what for what in _readers(detectors, binding) if what != _ALL]
    return f"watching {', '.join(read) or 'nothing'}"


def _readers(detectors: Iterable[Detector], binding: Binding) -> dict[str, list[str]]:
    """Return the detectors of each watched metric."""
    detectors = list(detectors)
    resting = idle(detectors, binding)
    readers: dict[str, list[str]] = {}
    for detector in detectors:
        if detector.name not in resting:
            read = [_source(metric, binding) for metric in detector.reads if metric in binding.keys]
            for what in [_ALL] if detector.watches_all else read:
                readers.setdefault(what, []).append(detector.name)
    return readers


def idle_lines(detectors: Iterable[Detector], binding: Binding) -> list[str]:
    """Return one line with the detectors that lack a metric, and one with those that are off."""
    missing: dict[str, list[str]] = {}
    off = []
    for detector in detectors:
        if not detector.enabled:
            off.append(detector.name)
        elif is_of_probe(detector):
            continue  # nobody has asked for it
        elif not detector.watches_all and binding.keys.keys().isdisjoint(detector.reads):
            missing.setdefault(detector.watches[0], []).append(detector.name)
    lines = []
    if missing:
        absent = [f"{metric} ({', '.join(names)})" for metric, names in missing.items()]
        if len(missing) > _MAX_METRICS_NAMED:  # which would take three lines of a terminal
            absent = [*missing]
        count = sum(map(len, missing.values()))
        idle_ones = "1 detector is" if count == 1 else f"{count} detectors are"
        these = "this metric is" if len(missing) == 1 else f"{len(missing)} metrics are"
        lines.append(f"{idle_ones} idle, because {these} not logged: {', '.join(absent)}")
    if off:
        lines.append(f"off (enabled: false): {', '.join(off)}")
    return lines


def _source(metric: str, binding: Binding) -> str:
    """Return a metric with its key, and with its kind if it is known."""
    key, kind = binding.source(metric), binding.kind(metric)
    if kind is not None:
        return f"{metric} ← {key} ({kind})"
    return metric if key == metric else f"{metric} ← {key}"
