"""Which key of this run fills which metric, and the line that says so."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from klarm.detectors import Detector
from klarm.metrics import METRICS, SAMPLES, rank, to_number
from klarm.samples import STATISTICS, sample_statistics

# Metrics may come in dicts within dicts (RLlib's do); deeper than this is not a metric, and more
# than this is not a step.
_DEEPEST = 4
_MOST_KEYS = 10_000


class Binding:
    """Turns what a trainer logs into plain floats by canonical name.

    A metric is bound to the first key that brings it a number, and stays bound to it: two keys
    with the same meaning in one framework are often different estimates, and must never take
    turns. Keys that are not bound are kept under their own name.
    """

    def __init__(self) -> None:
        self.keys: dict[str, str] = {}  # canonical name -> the key it is read from
        # The same as a journal has it that is being replayed, whose own keys are the names.
        self.recorded: dict[str, str] = {}
        self.unreadable: dict[str, str] = {}  # canonical name -> why it cannot be read
        self._names: dict[str, str] = {}  # key -> the name it is recorded under

    def read(self, metrics: Mapping[str, object]) -> dict[str, float]:
        """Return what in `metrics` is a number, by name; learn the keys not met before."""
        values: dict[str, float] = {}
        names = self._names
        new: dict[str, float] = {}
        for key, raw in tuple(metrics.items()):  # another thread may be changing it
            if type(raw) is float:
                number: float | None = raw
            elif key in SAMPLES:
                return self.read(self._flat(metrics))
            else:
                number = to_number(raw)
            if number is None:
                if isinstance(raw, Mapping):
                    return self.read(self._flat(metrics))
                if raw is not None and isinstance(key, str) and (known := rank(key)):
                    self._cannot_read(key, raw, "one number", known[0])
            elif key in names:
                values[names[key]] = number
            elif isinstance(key, str):
                new[key] = number
        if new:
            if len(names) > _MOST_KEYS:
                # Keys that never come again, such as one a step, would fill the memory.
                self._names = names = {key: names[key] for key in self.keys.values()}
            self._learn(new)
            values.update((names[key], number) for key, number in new.items())
        return values

    def sources(self) -> dict[str, str]:
        """Return the trainer's key of every metric there was, by canonical name."""
        return {name: self.recorded.get(name, key) for name, key in self.keys.items()}

    def names(self) -> list[str]:
        """Return the names that anything was recorded under so far."""
        return list(dict.fromkeys(self._names.values()))

    def _learn(self, keys: Iterable[str]) -> None:
        ranked = sorted((known[1], key, known[0]) for key in keys if (known := rank(key)))
        for place, key, name in ranked:
            self.keys.setdefault(name, key)
            # The same key with and without its prefix is one source, two keys are two.
            if rank(self.keys[name]) == (name, place):
                self._names[key] = name
        for key in keys:
            if key not in self._names:
                # A canonical name that came too late to be the source of its metric steps aside.
                known = rank(key)
                own = f"other/{key}" if known and known[1] == 0 else key
                self._names[key] = own.encode("utf-8", "replace").decode()

    def _flat(self, metrics: Mapping[str, object]) -> dict[str, object]:
        """Return nested dicts as one, keys joined by a slash, and of samples their statistics."""
        flat: dict[str, object] = {}
        waiting: list[tuple[str, Mapping[str, object], int]] = [("", metrics, 1)]
        while waiting and len(flat) < _MOST_KEYS and len(waiting) < _MOST_KEYS:
            prefix, level, depth = waiting.pop()
            for key, value in tuple(level.items()):
                path = f"{prefix}{key}" if prefix else key
                if isinstance(value, Mapping):
                    if depth < _DEEPEST:
                        waiting.append((f"{path}/", value, depth + 1))
                elif path in SAMPLES:
                    flat.update(self._of_samples(path, value))
                else:
                    flat[path] = value
        return flat

    def _of_samples(self, key: str, samples: object) -> dict[str, float]:
        found = sample_statistics(samples)
        if found is not None:
            return {f"{key}/{name}": number for name, number in found.items()}
        number = to_number(samples)
        if number is not None:
            return {key: number}
        if samples is not None:
            names = [known[0] for name in STATISTICS if (known := rank(f"{key}/{name}"))]
            self._cannot_read(key, samples, "a flat list of numbers", *names)
        return {}

    def _cannot_read(self, key: str, raw: object, wanted: str, *names: str) -> None:
        why = f"what is logged as {key} is not {wanted} but a {type(raw).__name__}"
        self.unreadable.update(dict.fromkeys(names, why))


class BindingReport:
    """Says, once the first steps have shown it, what each detector reads and which are idle."""

    # Some metrics come a few steps late; after this many, what is missing is said to be missing.
    _PATIENCE_STEPS = 10

    def __init__(
        self, detectors: Iterable[Detector], binding: Binding, say: Callable[[str], None]
    ) -> None:
        self._detectors = list(detectors)
        self._binding = binding
        self._say = say
        self._waiting = [d for d in self._detectors if d.enabled]
        self._steps = 0
        self._bound = 0  # metrics bound when it last looked
        self._said = False

    def step(self) -> bool:
        """Look at one more step; return whether there is anything left to wait for."""
        self._steps += 1
        bound = self._binding.keys
        if self._said and len(bound) == self._bound:
            return True  # nothing new: what is waited for may never come
        self._bound = len(bound)
        names = bound.keys()
        arrived = [d for d in self._waiting if d.watches_all or not names.isdisjoint(d.reads)]
        self._waiting = [d for d in self._waiting if d not in arrived]
        if not self._said:
            if not self._waiting or self._steps >= self._PATIENCE_STEPS:
                self.finish()
        elif arrived:
            self._say(binding_line(arrived, self._binding))
        return bool(self._waiting)

    def finish(self) -> None:
        """Say it now if it has not been said, and if there was anything to look at."""
        if not self._said and self._steps:
            self._said = True
            self._say(binding_line(self._detectors, self._binding))


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
    sources = binding.sources()
    readers: dict[str, list[str]] = {}
    for detector in detectors:
        if detector.name not in resting:
            read = [metric for metric in detector.reads if metric in sources]
            for metric in ["all of them"] if detector.watches_all else read:
                source = "" if sources.get(metric, metric) == metric else f" ← {sources[metric]}"
                readers.setdefault(f"{metric}{source}", []).append(detector.name)
    reasons: dict[str, list[str]] = {}
    for name, reason in resting.items():
        reasons.setdefault(reason, []).append(name)
    parts = [f"{what} ({', '.join(names)})" for what, names in readers.items()]
    watching = [f"watching {', '.join(parts)}"] if parts else []
    return "; ".join(watching + [f"{', '.join(names)} {r}" for r, names in reasons.items()])


def _why_missing(metric: str, binding: Binding) -> str:
    if metric in binding.unreadable:
        return binding.unreadable[metric]
    reason = f"no {metric} in what is logged"
    for other in METRICS[metric].unlike:
        if other in binding.keys:
            return f"{reason} ({binding.keys[other]} is another quantity: {METRICS[other].meaning})"
    alike = [name for name in binding.names() if metric in re.split(r"[^a-z]+", name.lower())]
    if alike:
        return f"{reason}; if {alike[0]} is {METRICS[metric].meaning}, log it as {metric}"
    hint = METRICS[metric].when_missing
    return f"{reason} ({hint})" if hint else reason
