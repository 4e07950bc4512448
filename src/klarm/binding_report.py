"""The line that says what of this run is watched, from which key, and what is not and why."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from klarm.binding import Binding
from klarm.detectors import Detector
from klarm.frameworks import frameworks_with
from klarm.metrics import METRICS
from klarm.settings import did_you_mean
from klarm.user_keys import SECTION


class BindingReport:
    """Says, once the first steps have shown it, what each detector reads and which are idle.

    Also says, once, when a KL has been exactly 0 for so long that it seems not to be measured.
    """

    # Some metrics come a few steps late; after this many, what is missing is said to be missing.
    _PATIENCE_STEPS = 10
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
        self._bound = 0  # metrics bound when it last looked
        self._said = False

    def step(self, values: Mapping[str, float]) -> bool:
        """Look at one more step; return whether there is anything left to wait for."""
        self._steps += 1
        if self._zeros:
            self._count_zeros(values)
        bound = self._binding.keys
        if self._said and len(bound) == self._bound:
            # Nothing new: what is waited for may never come.
            return bool(self._waiting or self._zeros)
        self._bound = len(bound)
        names = bound.keys()
        arrived = [d for d in self._waiting if d.watches_all or not names.isdisjoint(d.reads)]
        self._waiting = [d for d in self._waiting if d not in arrived]
        if not self._said:
            if not self._waiting or self._steps >= self._PATIENCE_STEPS:
                self.finish()
        elif arrived:
            self._say(binding_line(arrived, self._binding))
        return bool(self._waiting or self._zeros)

    def finish(self) -> None:
        """Say it now if it has not been said, and if there was anything to look at."""
        if not self._said and self._steps:
            self._said = True
            self._say(binding_line(self._detectors, self._binding))

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
                self._say(reason)


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


def binding_line(detectors: Iterable[Detector], binding: Binding) -> str:
    """Say in one line what is read, by which detectors, and which are idle and why."""
    detectors = list(detectors)
    resting = idle(detectors, binding)
    readers: dict[str, list[str]] = {}
    for detector in detectors:
        if detector.name not in resting:
            read = [_source(metric, binding) for metric in detector.reads if metric in binding.keys]
            for what in ["all of them"] if detector.watches_all else read:
                readers.setdefault(what, []).append(detector.name)
    reasons: dict[str, list[str]] = {}
    for name, reason in resting.items():
        reasons.setdefault(reason, []).append(name)
    parts = [f"{what} ({', '.join(names)})" for what, names in readers.items()]
    watching = [f"watching {', '.join(parts)}"] if parts else []
    watching += [f"{', '.join(names)} {r}" for r, names in reasons.items()]
    watching += binding.not_measured.values()
    told = "; ".join(watching)
    missing = [
        _why_missing(n, binding)
        for n, said in binding.user_keys.items()
        if said.key and n not in binding.keys
    ]
    return "; ".join([*watching, *(reason for reason in missing if reason not in told)])


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
    reason = f"no {metric} in what is logged"
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
