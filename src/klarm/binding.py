"""Which key of this run fills which metric, and the line that says so."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from klarm.detectors import Detector
from klarm.frameworks import PREFIX, frameworks_with
from klarm.kinds import Kind, Origin
from klarm.metrics import METRICS, SAMPLES, Meaning, meaning, to_number
from klarm.samples import STATISTICS, sample_statistics
from klarm.settings import did_you_mean
from klarm.user_keys import SECTION, UserKey

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

    def __init__(
        self,
        framework: str = "",
        user_keys: Mapping[str, UserKey] | None = None,
        *,
        of_journal: bool = False,
    ) -> None:
        self.framework = framework
        self.user_keys = dict(user_keys or {})  # by canonical name
        self.keys: dict[str, str] = {}  # canonical name -> the key it is read from
        # The same as a journal has it that is being replayed, whose own keys are the names.
        self.recorded: dict[str, Origin] = {}
        self.unreadable: dict[str, str] = {}  # canonical name -> why it cannot be read
        self.not_measured: dict[str, str] = {}  # canonical name -> why, and what to do
        self._of_journal = of_journal
        self._said = {_bare(said.key): name for name, said in self.user_keys.items() if said.key}
        self._names: dict[str, str] = {}  # key -> the name it is recorded under
        self._bound: dict[str, Meaning] = {}  # canonical name -> what its key stands for
        self._negated: list[str] = []  # canonical names whose key holds minus their value

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
                if raw is not None and isinstance(key, str) and (known := self._meaning(key)):
                    self._cannot_read(key, raw, "one number", known.metric)
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
        for name in self._negated:
            if name in values:
                values[name] = 0.0 - values[name]  # which leaves 0 without a sign
        return values

    def kind(self, name: str) -> Kind | None:
        """Return of which kind a bound metric is, as far as that is known."""
        said = self.user_keys.get(name)
        if said is not None and said.kind is not None:
            return said.kind
        recorded = self.recorded.get(name)
        return (recorded and recorded.kind) or self._told(name).kind

    def when_zero(self, name: str) -> str:
        """Return what to set when a bound metric is 0 because it is not measured."""
        return self._told(name).when_zero or METRICS[name].when_zero

    def _told(self, name: str) -> Meaning:
        """Return what the key of a bound metric stands for: the trainer's key, in a journal too."""
        if name in self.recorded:
            found = meaning(self.recorded[name].key, self.framework)
            if found is not None and found.metric == name:
                return found
        return self._bound[name]

    def source(self, name: str) -> str:
        """Return the trainer's key of a bound metric."""
        recorded = self.recorded.get(name)
        return recorded.key if recorded else self.keys[name]

    def origins(self) -> dict[str, Origin]:
        """Return where every metric that there was is read, by canonical name."""
        return {name: Origin(self.source(name), self.kind(name)) for name in self.keys}

    def names(self) -> list[str]:
        """Return the names that anything was recorded under so far."""
        return list(dict.fromkeys(self._names.values()))

    def _meaning(self, key: str) -> Meaning | None:
        """Return what a key stands for: in the user's word first, then by the tables."""
        # A journal's names are ours, and its values as they should be, whatever logged them.
        ours = self._of_journal and key in METRICS
        known = Meaning(key, 0, key) if ours else meaning(key, self.framework)
        recorded = self.recorded.get(key) if ours else None
        said = self._said.get(_bare(recorded.key if recorded else key))
        if said is not None:
            return known if known and known.metric == said else Meaning(said, 0, _bare(key))
        if known is None or known.metric in self._said.values() or (self._of_journal and not ours):
            return None
        return known

    def _learn(self, keys: Iterable[str]) -> None:
        found = {key: known for key in keys if (known := self._meaning(key))}
        for key, known in sorted(found.items(), key=lambda item: (item[1].rank, item[0])):
            name = known.metric
            if name not in self.keys:
                self.keys[name] = key
                self._bound[name] = known
                if known.negated:
                    self._negated.append(name)
            # The same key with and without its prefix is one source, two keys are two.
            if self._bound[name].source == known.source:
                self._names[key] = name
        for key in keys:
            if key not in self._names:
                # A canonical name that is not the source of its metric steps aside.
                own = f"other/{key}" if _bare(key) in METRICS else key
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
            meanings = [self._meaning(f"{key}/{name}") for name in STATISTICS]
            names = [known.metric for known in meanings if known]
            self._cannot_read(key, samples, "a flat list of numbers", *names)
        return {}

    def _cannot_read(self, key: str, raw: object, wanted: str, *names: str) -> None:
        why = f"what is logged as {key} is not {wanted} but a {type(raw).__name__}"
        self.unreadable.update(dict.fromkeys(names, why))


def _bare(key: str) -> str:
    return key.removeprefix(PREFIX)


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
