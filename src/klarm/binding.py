"""Which key of this run fills which metric, and the line that says so."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from klarm.detectors import Detector
from klarm.metrics import METRICS, rank, to_number

# Metrics may come in dicts within dicts (RLlib's do); deeper than this is not a metric.
_DEEPEST = 4


class Binding:
    """Turns what a trainer logs into plain floats by canonical name.

    A metric is bound to the first key that brings it a number, and stays bound to it: two keys
    with the same meaning in one framework are often different estimates, and must never take
    turns. Keys that are not bound are kept under their own name.
    """

    def __init__(self) -> None:
        self.keys: dict[str, str] = {}  # canonical name -> the key it is read from
        self._names: dict[str, str] = {}  # key -> the name it is recorded under

    def read(self, metrics: Mapping[str, object]) -> dict[str, float]:
        """Return what in `metrics` is a number, by name; learn the keys not met before."""
        values: dict[str, float] = {}
        names = self._names
        new: dict[str, float] = {}
        for key, raw in metrics.items():
            number = raw if type(raw) is float else to_number(raw)
            if number is None:
                if isinstance(raw, Mapping):
                    return self.read(_flat(metrics))
            elif key in names:
                values[names[key]] = number
            elif isinstance(key, str):
                new[key] = number
        if new:
            self._learn(new)
            values.update((names[key], number) for key, number in new.items())
        return values

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
                own = f"other/{key}" if key in self.keys else key
                self._names[key] = own.encode("utf-8", "replace").decode()


def _flat(metrics: Mapping[str, object], depth: int = 1) -> dict[str, object]:
    """Return nested dicts as one, their keys joined by a slash."""
    flat: dict[str, object] = {}
    for key, value in metrics.items():
        if not isinstance(value, Mapping):
            flat[key] = value
        elif depth < _DEEPEST:
            flat.update((f"{key}/{inner}", v) for inner, v in _flat(value, depth + 1).items())
    return flat


class BindingReport:
    """Says, once the first steps have shown it, what each detector reads and which are idle."""

    # Some metrics come a few steps late; after this many, what is missing is said to be missing.
    _PATIENCE_STEPS = 10

    def __init__(self, detectors: Iterable[Detector], say: Callable[[str], None]) -> None:
        self._detectors = list(detectors)
        self._say = say
        self._waiting = [d for d in self._detectors if d.enabled]
        self._steps = 0
        self._said = False

    def step(self, bound: Mapping[str, str]) -> bool:
        """Look at one more step; return whether there is anything left to wait for."""
        self._steps += 1
        arrived = [d for d in self._waiting if d.watches[0] in bound]
        self._waiting = [d for d in self._waiting if d.watches[0] not in bound]
        if not self._said:
            if not self._waiting or self._steps >= self._PATIENCE_STEPS:
                self.finish(bound)
        elif arrived:
            self._say(binding_line(arrived, bound))
        return bool(self._waiting)

    def finish(self, bound: Mapping[str, str]) -> None:
        """Say it now if it has not been said."""
        if not self._said:
            self._said = True
            self._say(binding_line(self._detectors, bound))


def binding_line(detectors: Iterable[Detector], bound: Mapping[str, str]) -> str:
    """Say in one line what each detector reads, and which are idle and why."""
    watching, idle = [], []
    for detector in detectors:
        metric = detector.watches[0]
        if not detector.enabled:
            idle.append(f"{detector.name} is off (enabled: false)")
        elif metric in bound:
            key = bound[metric]
            source = "" if key == metric else f" ← {key}"
            watching.append(f"{detector.name} watches {metric}{source}")
        else:
            idle.append(f"{detector.name} is idle: {_why_missing(metric, bound)}")
    return "; ".join(watching + idle)


def _why_missing(metric: str, bound: Mapping[str, str]) -> str:
    reason = f"no {metric} in what is logged"
    if metric == "kl" and "kl_old" in bound:
        return f"{reason} ({bound['kl_old']} is the KL to the old policy, another quantity)"
    hint = METRICS[metric].when_missing if metric in METRICS else ""
    return f"{reason} ({hint})" if hint else reason
