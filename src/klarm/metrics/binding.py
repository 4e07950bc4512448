"""Which key of this run fills which metric."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence

from klarm.metrics.catalogue import METRICS, SAMPLES, Meaning, meaning, to_number
from klarm.metrics.frameworks import PREFIX
from klarm.metrics.kl_kind import Kind, Origin
from klarm.metrics.samples import STATISTICS, sample_statistics
from klarm.metrics.user_keys import UserKey
from klarm.text import clean_line

# Metrics may come in dicts within dicts (RLlib's do); deeper than this is not a metric, and more
# than this is not a step.
_DEEPEST = 4
_MAX_KEYS = 10_000
# What is kept of names that are no metric of klarm's: a key that never comes again, such as one a
# step, would fill the memory. Losses come first, since any of them may turn out NaN.
_MAX_NAMES, _MAX_LOSSES = 10_000, 1_000
_MAX_NAME = 500  # characters
# A loss by any other name matters when it is not finite.
OTHER_LOSS = "other_loss"


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
        own_metrics: Iterable[str] = (),
    ) -> None:
        """Prepare to read. `own_metrics` are read under their own name: klarm has no other."""
        self.framework = framework
        self._own = frozenset(own_metrics)
        self.user_keys = dict(user_keys or {})  # by canonical name
        self.keys: dict[str, str] = {}  # canonical name -> the key it is read from
        # The same as a journal has it that is being replayed, whose own keys are the names.
        self.recorded: dict[str, Origin] = {}
        self.unreadable: dict[str, str] = {}  # canonical name -> why it cannot be read
        self.not_measured: dict[str, str] = {}  # canonical name -> why, and what to do
        self.remarks: list[str] = []  # on what is left out, for the monitor to say
        self._remarked: set[str] = set()
        self._of_journal = of_journal
        self._said = {_bare(said.key): name for name, said in self.user_keys.items() if said.key}
        self._said_plainly = {key.lower(): name for key, name in self._said.items()}
        self._names: dict[str, str] = {}  # key -> the name it is recorded under
        self._bound: dict[str, Meaning] = {}  # canonical name -> what its key stands for
        self._losses: list[str] = []  # names of losses that are no metric of klarm's
        self._negated: list[str] = []  # canonical names whose key holds minus their value

    def read(self, metrics: Mapping[str, object]) -> dict[str, float]:
        """Return what in `metrics` is a number, by name; learn the keys not met before."""
        names = self._names
        values: dict[str, float]
        try:  # nearly every row has keys that are known, and numbers
            values = {
                names[key]: raw if type(raw) is float else _plain_number(key, raw)
                for key, raw in metrics.items()
            }
        except Exception:  # noqa: BLE001  # a new key; or a foreign object that fails in its own way
            values = self._read_one_by_one(metrics)
        for name in self._negated:
            if name in values:
                values[name] = 0.0 - values[name]  # which leaves 0 without a sign
        for name in self._losses:
            if name in values and values[name] - values[name] != 0.0:
                values[OTHER_LOSS] = values[name]
        return values

    def _read_one_by_one(self, metrics: Mapping[str, object]) -> dict[str, float]:
        """Do the same for a row that holds something new or odd, which costs nothing but itself."""
        values: dict[str, float] = {}
        new: dict[str, float] = {}
        for key, raw in self._items(metrics):
            try:
                if type(raw) is float:
                    number: float | None = raw
                elif key in SAMPLES:
                    return self._read_one_by_one(self._flat(metrics))
                else:
                    number = to_number(raw)
                if number is None:
                    if isinstance(raw, Mapping):
                        return self._read_one_by_one(self._flat(metrics))
                    if raw is not None and isinstance(key, str) and (known := self._meaning(key)):
                        self._cannot_read(key, raw, "one number", known.metric)
                elif key in self._names:
                    values[self._names[key]] = number
                elif isinstance(key, str) and self._is_short(key):
                    new[key] = number
            except Exception:  # noqa: BLE001  # a foreign object may fail in any way of its own
                continue
        if new:
            self._learn(new)
            names = self._names
            values.update((names[key], number) for key, number in new.items() if key in names)
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
        known, kind = METRICS.get(name), self.kind(name)
        if kind is not None and kind.floored:  # then it may be measured, and below 0
            return ""
        return self._told(name).when_zero or (known.when_zero if known else "")

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
        return clean_line(recorded.key if recorded else self.keys[name])

    def origins(self) -> dict[str, Origin]:
        """Return where every metric that there was is read, by canonical name."""
        return {name: Origin(self.source(name), self.kind(name)) for name in self.keys}

    def names(self) -> list[str]:
        """Return the names that anything was recorded under so far."""
        return list(dict.fromkeys(self._names.values()))

    def _meaning(self, key: str) -> Meaning | None:
        """Return what a key stands for: in the user's word first, then by the tables."""
        # A journal's names are ours, and its values as they should be, whatever logged them.
        bare = _bare(key)
        ours = self._of_journal and key in METRICS
        known = Meaning(key, 0, key) if ours else meaning(key, self.framework)
        recorded = self.recorded.get(key) if ours else None
        own = _bare(recorded.key) if recorded else bare
        said = self._said.get(own)
        if said is not None:
            return known if known and known.metric == said else Meaning(said, 0, bare)
        if known is None and bare in self._own:
            return Meaning(bare, 0, bare)
        said = self._said_plainly.get(own.lower())
        if said is not None:
            return known if known and known.metric == said else Meaning(said, 1, bare)
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
                is_loss = "loss" in key.lower() and not self._of_journal
                if not self._has_room(is_loss):
                    continue
                # A canonical name that is not the source of its metric steps aside.
                own = f"other/{key}" if _bare(key) in METRICS else key
                self._names[key] = name = clean_line(own)
                if is_loss:
                    self._losses.append(name)
                    self.keys.setdefault(OTHER_LOSS, key)
                    self._bound.setdefault(OTHER_LOSS, Meaning(OTHER_LOSS, 0, key))

    def _has_room(self, is_loss: bool) -> bool:
        """Tell whether one more name is kept; remark on it if not."""
        if len(self._names) < _MAX_NAMES or (is_loss and len(self._losses) < _MAX_LOSSES):
            return True
        self._remark(
            f"more than {_MAX_NAMES:,} different names were logged: further ones are not recorded. "
            "What detectors read still is."
        )
        return False

    def _items(self, level: Mapping[str, object]) -> Sequence[tuple[object, object]]:
        """Return what a mapping holds, as far as it can be read."""
        if type(level) is dict:
            return tuple(level.items())  # at once: another thread may be changing it
        found: list[tuple[object, object]] = []
        try:
            found.extend(level.items())
        except Exception as error:  # noqa: BLE001  # a foreign object may fail in its own way
            kind = clean_line(type(level).__name__, 80)
            self._remark(
                f"a {kind} that was logged cannot be read to its end: {type(error).__name__}"
            )
        return found

    def _is_short(self, key: str) -> bool:
        if len(key) > _MAX_NAME:
            self._remark(
                f"a name of more than {_MAX_NAME} characters was logged: what it holds is not "
                f"recorded. It begins with {clean_line(key, 60)}"
            )
        return len(key) <= _MAX_NAME

    def _flat(self, metrics: Mapping[str, object]) -> dict[str, object]:
        """Return nested dicts as one, keys joined by a slash, and of samples their statistics."""
        flat: dict[str, object] = {}
        waiting: list[tuple[str, Mapping[str, object], int]] = [("", metrics, 1)]
        while waiting and len(flat) < _MAX_KEYS and len(waiting) < _MAX_KEYS:
            prefix, level, depth = waiting.pop()
            for key, value in self._items(level)[: None if depth == 1 else _MAX_KEYS]:
                with contextlib.suppress(Exception):  # a foreign object may fail in any way
                    path = f"{prefix}{key}" if prefix else key
                    if isinstance(value, Mapping):
                        if depth < _DEEPEST:
                            waiting.append((f"{path}/", value, depth + 1))
                    elif path in SAMPLES:
                        flat.update(self._of_samples(str(path), value))
                    elif isinstance(path, str):
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
        kind = clean_line(type(raw).__name__, 80)
        why = f"what is logged as {clean_line(key)} is not {wanted} but a {kind}"
        self.unreadable.update(dict.fromkeys(names, why))

    def _remark(self, text: str) -> None:
        about = text.partition(":")[0]
        if about not in self._remarked:
            self._remarked.add(about)
            self.remarks.append(text)


def _plain_number(key: str, raw: object) -> float:
    number = None if key in SAMPLES else to_number(raw)
    if number is None:
        raise ValueError(key)
    return number


def _bare(key: str) -> str:
    return key.removeprefix(PREFIX)
