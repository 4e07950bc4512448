"""The binding: which key of this run each metric is read from."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence

from klarm.metrics.catalogue import METRICS, SAMPLES
from klarm.metrics.frameworks import PREFIX, trains_language_models
from klarm.metrics.key_meaning import Meaning, meaning
from klarm.metrics.kl_kind import Kind, Origin
from klarm.metrics.numbers import to_number
from klarm.metrics.samples import STATISTICS, sample_statistics
from klarm.metrics.user_keys import UserKey
from klarm.text import clean_line

# Metrics may be nested dicts, as in RLlib. Deeper or larger ones are not metrics.
_MAX_DEPTH = 4
_MAX_KEYS = 10_000
# The number of other names that are kept: keys that are used only once, such as one per step, would
# fill the memory. Losses are kept beyond that, because any of them may become NaN.
_MAX_NAMES, _MAX_LOSSES = 10_000, 1_000
_MAX_NAME_LENGTH = 500
# The name under which any other loss is recorded when it is not finite.
OTHER_LOSS = "other_loss"
_ENTROPY = "entropy"


class Binding:
    """Translates what a trainer logs to plain floats by canonical name.

    A metric is bound to the first key that has a number for it, and stays bound to that key. Two
    keys with the same meaning in one framework are often different estimates, so they must never
    be mixed. Keys that are not bound are kept under their own name.
    """

    def __init__(
        self,
        framework: str = "",
        user_keys: Mapping[str, UserKey] | None = None,
        *,
        of_journal: bool = False,
        own_metrics: Iterable[str] = (),
    ) -> None:
        """Create a binding. `own_metrics` are metrics of the user, read under their own name."""
        self.framework = framework
        self._own = frozenset(own_metrics)
        self.user_keys = dict(user_keys or {})  # by canonical name
        self.keys: dict[str, str] = {}  # canonical name -> the key it is read from
        # The same, as recorded in a journal that is replayed, in which the keys are metric names.
        self.recorded: dict[str, Origin] = {}
        self.unreadable: dict[str, str] = {}  # canonical name -> why it cannot be read
        self.not_measured: dict[str, str] = {}  # canonical name -> why, and what to do
        self.remarks: list[str] = []  # about what is left out; the monitor reports them
        self._remarked: set[str] = set()
        self._of_journal = of_journal
        # The user's keys without their prefix -> canonical name, as spelled and in lower case.
        self._chosen = {_bare(user.key): name for name, user in self.user_keys.items() if user.key}
        self._chosen_lower = {key.lower(): name for key, name in self._chosen.items()}
        self._names: dict[str, str] = {}  # key -> the name it is recorded under
        self._bound: dict[str, Meaning] = {}  # canonical name -> the meaning of its key
        self._losses: list[str] = []  # names of losses that are not metrics of klarm
        self._negated: list[str] = []  # canonical names whose key has minus their value

    def read(self, metrics: Mapping[str, object]) -> dict[str, float]:
        """Return the numbers in `metrics` by name, and bind new keys."""
        names = self._names
        values: dict[str, float]
        try:  # nearly all rows contain only known keys and numbers
            values = {
                names[key]: raw if type(raw) is float else _plain_number(key, raw)
                for key, raw in metrics.items()
            }
        except Exception:  # noqa: BLE001  # a new key, or a foreign object that raises anything
            values = self._read_one_by_one(metrics)
        for name in self._negated:
            if name in values:
                values[name] = 0.0 - values[name]  # turns -0.0 into 0.0
        for name in self._losses:
            if name in values and values[name] - values[name] != 0.0:
                values[OTHER_LOSS] = values[name]
        return values

    def _read_one_by_one(self, metrics: Mapping[str, object]) -> dict[str, float]:
        """Read a row with new or unreadable entries; an unreadable one is left out."""
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
            except Exception:  # noqa: BLE001  # a foreign object may raise anything
                continue
        if new:
            self._learn(new)
            names = self._names
            values.update((names[key], number) for key, number in new.items() if key in names)
        return values

    def kind(self, name: str) -> Kind | None:
        """Return the kind of a bound metric; None if unknown."""
        user = self.user_keys.get(name)
        if user is not None and user.kind is not None:
            return user.kind
        recorded = self.recorded.get(name)
        return (recorded and recorded.kind) or self._meaning_of(name).kind

    def when_zero(self, name: str) -> str:
        """Return what to set if a bound metric is 0 because it is not measured."""
        known, kind = METRICS.get(name), self.kind(name)
        if kind is not None and kind.floored:  # it may be measured, and below 0
            return ""
        return self._meaning_of(name).when_zero or (known.when_zero if known else "")

    def when_negative(self, name: str) -> str:
        """Return what to check if a bound metric is below 0; empty if it may be.

        The entropy over tokens is never negative; that of a continuous policy may be.
        """
        if name != _ENTROPY or not trains_language_models(self.framework):
            return ""
        return "is its sign flipped, as in a loss term? Then log minus it"

    def _meaning_of(self, name: str) -> Meaning:
        """Return the meaning of the trainer's key of a bound metric, in a journal too."""
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
        """Return the origins of all bound metrics, by canonical name."""
        return {name: Origin(self.source(name), self.kind(name)) for name in self.keys}

    def names(self) -> list[str]:
        """Return all names that have been used so far."""
        return list(dict.fromkeys(self._names.values()))

    def _meaning(self, key: str) -> Meaning | None:
        """Return the meaning of a key: as the user says, otherwise by the tables."""
        # The names in a journal are canonical, and its values need no conversion.
        bare = _bare(key)
        ours = self._of_journal and key in METRICS
        known = Meaning(key, 0, key) if ours else meaning(key, self.framework)
        recorded = self.recorded.get(key) if ours else None
        own = _bare(recorded.key) if recorded else bare
        metric = self._chosen.get(own)
        if metric is not None:
            return known if known and known.metric == metric else Meaning(metric, 0, bare)
        if known is None and bare in self._own:
            return Meaning(bare, 0, bare)
        metric = self._chosen_lower.get(own.lower())
        if metric is not None:
            return known if known and known.metric == metric else Meaning(metric, 1, bare)
        if (
            known is None
            or known.metric in self._chosen.values()
            or (self._of_journal and not ours)
        ):
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
            # The same key with and without its prefix is one source.
            if self._bound[name].source == known.source:
                self._names[key] = name
        for key in keys:
            if key not in self._names:
                is_loss = "loss" in key.lower() and not self._of_journal
                if not self._has_room(is_loss):
                    continue
                # A key that looks like a metric, but is not its source, gets another name.
                own = f"other/{key}" if _bare(key) in METRICS else key
                self._names[key] = name = clean_line(own)
                if is_loss:
                    self._losses.append(name)
                    self.keys.setdefault(OTHER_LOSS, key)
                    self._bound.setdefault(OTHER_LOSS, Meaning(OTHER_LOSS, 0, key))

    def _has_room(self, is_loss: bool) -> bool:
        """Return whether one more name can be kept; add a remark if not."""
        if len(self._names) < _MAX_NAMES or (is_loss and len(self._losses) < _MAX_LOSSES):
            return True
        self._remark(
            f"more than {_MAX_NAMES:,} different names were logged: further ones are not recorded, "
            "except those that detectors read."
        )
        return False

    def _items(self, level: Mapping[str, object]) -> Sequence[tuple[object, object]]:
        """Return the items of a mapping, as far as they can be read."""
        if type(level) is dict:
            return tuple(level.items())  # a copy, because another thread may change it
        found: list[tuple[object, object]] = []
        try:
            found.extend(level.items())
        except Exception as error:  # noqa: BLE001  # a foreign object may raise anything
            kind = clean_line(type(level).__name__, 80)
            self._remark(
                f"a {kind} that was logged cannot be read completely: {type(error).__name__}"
            )
        return found

    def _is_short(self, key: str) -> bool:
        if len(key) > _MAX_NAME_LENGTH:
            self._remark(
                f"a name of more than {_MAX_NAME_LENGTH} characters was logged: its values are not "
                f"recorded. It begins with {clean_line(key, 60)}"
            )
        return len(key) <= _MAX_NAME_LENGTH

    def _flat(self, metrics: Mapping[str, object]) -> dict[str, object]:
        """Return nested dicts as one, with keys joined by a slash and statistics of samples."""
        flat: dict[str, object] = {}
        waiting: list[tuple[str, Mapping[str, object], int]] = [("", metrics, 1)]
        while waiting and len(flat) < _MAX_KEYS and len(waiting) < _MAX_KEYS:
            prefix, level, depth = waiting.pop()
            for key, value in self._items(level)[: None if depth == 1 else _MAX_KEYS]:
                with contextlib.suppress(Exception):  # a foreign object may raise anything
                    path = f"{prefix}{key}" if prefix else key
                    if isinstance(value, Mapping):
                        if depth < _MAX_DEPTH:
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
        is_empty = isinstance(raw, str) and not raw.strip()  # a cell of a table
        if key in self._names and not is_empty:  # detectors watch it, and now they cannot
            text = f"{clean_line(key)} is not {wanted} but a {kind}; it is left out"
            self._remark(text, f"no number: {key}")

    def _remark(self, text: str, about: str = "") -> None:
        """Remark on something, once per topic."""
        about = about or text.partition(":")[0]
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
