"""The lines that say what of this run is watched, from which key, and what is not and why."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from klarm.detectors import Detector
from klarm.metrics import METRICS, OTHER_LOSS, SECTION, Binding, frameworks_with
from klarm.settings import did_you_mean

_NOTHING_WATCHED = (
    "WARNING: nothing is watched: {} "
    f"(docs/metrics.md has the names; {SECTION} in klarm.yaml says which key is which)"
)
# There, so many keys of the run are named.
_MAX_KEYS_NAMED = 10


class BindingReport:
    """Says with the first step what is read, with the next what is missing, later what is new.

    Also says, once, when a KL has been exactly 0 for so long that it seems not to be measured.
    """

    # Several dicts may make up the first step, and some trainers have not learnt by then: what is
    # missing is said with the second.
    _MISSING_AT_STEP = 2
    # Real runs begin with up to six zeros, for the policy is its own reference there.
    _ZEROS = 20

    def __init__(
        self, detectors: Iterable[Detector], binding: Binding, say: Callable[[str], None]
    ) -> None:
        self._detectors = list(detectors)
        self._binding = binding
        self._say = say
        self._waiting = [d for d in self._detectors if d.enabled]
        watched = {name for d in self._waiting if not d.watches_all for name in d.reads}
        # How often each KL was there and 0, until it is anything else.
        self._zeros = {name: 0 for name in METRICS if METRICS[name].target and name in watched}
        self._steps = 0
        self._step: int | None = None  # the last one: several dicts may make up one
        self._bound = 0  # metrics bound when it last looked
        self._said: set[str] = set()
        self._missing_said = False
        self._settled = False

    def step(self, step: int, values: Mapping[str, float]) -> bool:
        """Look at what one more dict brought; return whether there is anything left to wait for."""
        if self._settled and len(self._binding.keys) == self._bound:
            return True  # nearly every step: nothing new, and what is waited for may never come
        if step != self._step:
            self._steps += 1
            self._step = step
        if not values.keys().isdisjoint(self._zeros):
            self._count_zeros(values)
        bound = self._binding.keys
        new = len(bound) != self._bound
        if new:
            self._bound = len(bound)
            names = bound.keys()
            self._waiting = [
                d for d in self._waiting if not d.watches_all and names.isdisjoint(d.reads)
            ]
            self._say_watched()
        if new if self._missing_said else self._steps >= self._MISSING_AT_STEP:
            self._say_missing()
        left = bool(self._waiting or self._zeros or not self._missing_said)
        # Once that is said, only a metric that is new has anything to say.
        self._settled = left and self._missing_said and bound.keys().isdisjoint(self._zeros)
        return left

    def finish(self) -> None:
        """Say now what has not been said, if there was anything to look at."""
        if self._steps and not self._missing_said:
            self._say_missing()

    def _say_watched(self) -> None:
        if not watched(self._detectors, self._binding):
            return
        lines = self._unsaid(watched_lines(self._detectors, self._binding))
        if lines:
            self._say("\n  ".join(["watching", *lines]))

    def _say_missing(self) -> None:
        """Say what is idle, in full the first time and then only what is new of the hints."""
        again, self._missing_said = self._missing_said, True
        if not watched(self._detectors, self._binding):
            if any(detector.enabled for detector in self._detectors):
                for line in self._unsaid([_NOTHING_WATCHED]):
                    self._say(line.format(nothing_known(self._binding)))
        elif not again:
            for line in idle_lines(self._detectors, self._binding):
                self._say(line)
        for line in self._unsaid(hints(self._detectors, self._binding)):
            self._say(line)

    def _unsaid(self, lines: Iterable[str]) -> list[str]:
        unsaid = [line for line in lines if line not in self._said]
        self._said.update(unsaid)
        return unsaid

    def _count_zeros(self, values: Mapping[str, float]) -> None:
        for name in self._zeros.keys() & values.keys():
            remedy = self._binding.when_zero(name)
            if values[name] != 0.0 or not remedy:
                del self._zeros[name]
                continue
            self._zeros[name] += 1
            if self._zeros[name] == self._ZEROS:
                del self._zeros[name]
                source = self._binding.source(name)
                reason = (
                    f"{source} has been exactly 0 for its first {self._ZEROS} rows, as if KL were "
                    f"not measured: {remedy}"
                )
                self._binding.not_measured[name] = reason
                for line in self._unsaid([reason]):
                    self._say(line)


def idle(detectors: Iterable[Detector], binding: Binding) -> dict[str, str]:
    """Return the detectors that have nothing to read, and why."""
    reasons = {}
    for detector in detectors:
        if not detector.enabled:
            reasons[detector.name] = "off (enabled: false)"
        elif detector.idle_because:
            reasons[detector.name] = f"idle: {detector.idle_because}"
        elif detector.watches_all:
            if not binding.keys:
                reasons[detector.name] = "idle: nothing that is logged is known to klarm"
        elif binding.keys.keys().isdisjoint(detector.reads):
            reasons[detector.name] = f"idle: {_why_missing(detector.watches[0], binding)}"
    return reasons


def watched(detectors: Iterable[Detector], binding: Binding) -> list[str]:
    """Return the detectors that judge a metric here: to notice that one vanishes is not enough."""
    detectors = list(detectors)
    resting = idle(detectors, binding)
    return [d.name for d in detectors if d.name not in resting and not d.watches_all]


def watched_lines(detectors: Iterable[Detector], binding: Binding) -> list[str]:
    """Return a line for every metric that is watched: its key, its kind and its detectors."""
    detectors = list(detectors)
    resting = idle(detectors, binding)
    readers: dict[str, list[str]] = {}
    for detector in detectors:
        if detector.name not in resting:
            read = [_source(metric, binding) for metric in detector.reads if metric in binding.keys]
            for what in ["all of them"] if detector.watches_all else read:
                readers.setdefault(what, []).append(detector.name)
    return [f"{what}: {', '.join(names)}" for what, names in readers.items()]


def watched_in_short(detectors: Iterable[Detector], binding: Binding) -> str:
    """Return the metrics that are watched, with key and kind, in one line."""
    read = [line.rpartition(": ")[0] for line in watched_lines(detectors, binding)]
    return f"watching {', '.join(what for what in read if what != 'all of them') or 'nothing'}"


def idle_lines(detectors: Iterable[Detector], binding: Binding) -> list[str]:
    """Return in a line which detectors wait for a metric, and in another which are off."""
    missing: dict[str, list[str]] = {}
    off = []
    for detector in detectors:
        if not detector.enabled:
            off.append(detector.name)
        elif _is_of_probe(detector):
            continue  # nobody has asked for it
        elif not detector.watches_all and binding.keys.keys().isdisjoint(detector.reads):
            missing.setdefault(detector.watches[0], []).append(detector.name)
    lines = []
    if missing:
        waiting = [f"{', '.join(names)} ({metric})" for metric, names in missing.items()]
        lines.append(f"idle, not logged: {', '.join(waiting)}")
    if off:
        lines.append(f"off (enabled: false): {', '.join(off)}")
    return lines


def hints(detectors: Iterable[Detector], binding: Binding) -> list[str]:
    """Return what a user can do about what is not watched, a line each."""
    found = []
    missing = {name: None for name, said in binding.user_keys.items() if said.key}
    for detector in detectors:
        if not detector.enabled or detector.watches_all or _is_of_probe(detector):
            continue
        if detector.idle_because:
            found.append(f"{detector.name} is idle: {detector.idle_because}")
        if (binding.keys.keys() - {OTHER_LOSS}).isdisjoint(detector.reads):
            missing[detector.watches[0]] = None
    for metric in missing:
        if metric not in binding.keys:
            reason = _why_missing(metric, binding)
            if reason != _missing(metric):
                found.append(reason)
    return [*found, *binding.not_measured.values()]


def nothing_known(binding: Binding) -> str:
    """Say that a run logs nothing that any detector reads, and what it does log."""
    names = binding.names()
    held = ", ".join(names[:_MAX_KEYS_NAMED]) or "no numbers"
    more = ", ..." if len(names) > _MAX_KEYS_NAMED else ""
    return f"nothing that is logged is known to a detector; it holds {held}{more}"


def _is_of_probe(detector: Detector) -> bool:
    """Tell whether it reads what klarm's own probe measures, if somebody uses it."""
    metric = METRICS.get(detector.watches[0])
    return metric is not None and metric.by_probe


def _source(metric: str, binding: Binding) -> str:
    """Return a metric with its key, and its kind if that is known."""
    key, kind = binding.source(metric), binding.kind(metric)
    if kind is not None:
        return f"{metric} ← {key} ({kind})"
    return metric if key == metric else f"{metric} ← {key}"


def _why_missing(metric: str, binding: Binding) -> str:
    if metric in binding.unreadable:
        return binding.unreadable[metric]
    said = binding.user_keys.get(metric)
    if said is not None and said.key:
        near = did_you_mean(said.key, binding.names())
        return f"no {said.key} in what is logged, which {SECTION}.{metric} names{near}"
    reason = _missing(metric)
    for name in binding.names():
        if name not in METRICS and (frameworks := frameworks_with(name, metric)):
            known = ", ".join(frameworks)
            return f"{reason} ({name} is {metric} in {known}: say which by framework=...)"
    for other in METRICS[metric].unlike:
        if other in binding.keys:
            return f"{reason} ({binding.keys[other]} is another quantity: {METRICS[other].meaning})"
    alike = [name for name in binding.names() if metric in re.split(r"[^a-z]+", name.lower())]
    if alike:
        return (
            f"{reason}; if {alike[0]} is {METRICS[metric].meaning}, log it as {metric} or set "
            f"{SECTION}.{metric}: {alike[0]}"
        )
    hint = METRICS[metric].when_missing
    return f"{reason} ({hint})" if hint else reason


def _missing(metric: str) -> str:
    return f"no {metric} in what is logged"
