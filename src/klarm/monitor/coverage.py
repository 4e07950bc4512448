"""Reports which metrics of a run are watched, from which keys, and what is not watched and why."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping

from klarm.detectors import Detector
from klarm.metrics import METRICS, OTHER_LOSS, SECTION, Binding, frameworks_with
from klarm.settings import did_you_mean

_NOTHING_WATCHED = (
    "WARNING: nothing is watched: {} "
    f"(`klarm docs metrics` has the names; {SECTION} in klarm.yaml says which key is which)"
)
# There, so many keys of the run are named.
_MAX_KEYS_NAMED = 10
_EXAMPLE = ("kl", "COLUMN")
# So many metrics that are not logged are named with their detectors.
_MAX_METRICS_NAMED = 4


class BindingReport:
    """Reports watched metrics at the first step, missing ones at the next, and new ones later.

    It also reports, once, a KL that has been exactly 0 for so long that it seems not to be
    measured.
    """

    # Missing metrics are reported at the second step: the first may be logged in several calls, and
    # some trainers have made no update by then.
    _MISSING_AT_STEP = 2
    # Real runs begin with up to six zeros, because the policy still equals its reference.
    _MAX_ZEROS = 20
    _MAX_NEGATIVE = 5

    def __init__(
        self,
        detectors: Iterable[Detector],
        binding: Binding,
        say: Callable[[str], None],
        *,
        from_log: bool = False,
    ) -> None:
        self._from_log = from_log
        self._detectors = list(detectors)
        self._binding = binding
        self._say = say
        self._waiting = [d for d in self._detectors if d.enabled]
        watched = {name for d in self._waiting if not d.watches_all for name in d.reads}
        # How often each KL has been 0; metrics are removed once they have another value.
        self._zeros = {name: 0 for name in METRICS if METRICS[name].target and name in watched}
        # The same for metrics that are below 0 and cannot be.
        self._negative = {name: 0 for name in watched if binding.when_negative(name)}
        self._steps = 0
        self._step: int | None = None  # the last step: it may be logged in several calls
        self._bound = 0  # how many metrics were bound at the last check
        self._said: set[str] = set()
        self._missing_said = False
        self._settled = False

    def step(self, step: int, values: Mapping[str, float]) -> bool:
        """Check one more call of `log`; return whether there may be more to report later."""
        if self._settled and len(self._binding.keys) == self._bound:
            return True  # nearly every step: nothing is new
        if step != self._step:
            self._steps += 1
            self._step = step
        if not values.keys().isdisjoint(self._zeros):
            self._count_zeros(values)
        if not values.keys().isdisjoint(self._negative):
            self._count_negative(values)
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
        left = bool(self._waiting or self._zeros or self._negative or not self._missing_said)
        # From here on, only a new metric can change anything.
        counted = self._zeros.keys() | self._negative.keys()
        self._settled = left and self._missing_said and bound.keys().isdisjoint(counted)
        return left

    def finish(self) -> None:
        """Report missing metrics now, if they were not reported and anything was logged."""
        if self._steps and not self._missing_said:
            self._say_missing()

    def _say_watched(self) -> None:
        if not watched(self._detectors, self._binding):
            return
        lines = self._unsaid(watched_lines(self._detectors, self._binding))
        if lines:
            self._say("\n  ".join(["watching", *lines]))

    def _say_missing(self) -> None:
        """Report idle detectors, in full the first time and later only new hints."""
        again, self._missing_said = self._missing_said, True
        if not watched(self._detectors, self._binding):
            if any(detector.enabled for detector in self._detectors):
                for line in self._unsaid([_NOTHING_WATCHED]):
                    self._say(line.format(nothing_known(self._binding)))
        elif not again:
            for line in idle_lines(self._detectors, self._binding):
                self._say(line)
        for line in self._unsaid(hints(self._detectors, self._binding, from_log=self._from_log)):
            self._say(line)

    def _unsaid(self, lines: Iterable[str]) -> list[str]:
        unsaid = [line for line in lines if line not in self._said]
        self._said.update(unsaid)
        return unsaid

    def _count_negative(self, values: Mapping[str, float]) -> None:
        for name in self._negative.keys() & values.keys():
            self._negative[name] += 1
            is_negative = values[name] < 0.0
            if is_negative and self._negative[name] == self._MAX_NEGATIVE:
                self._say(
                    f"{self._binding.source(name)} has been below 0 for its first "
                    f"{self._MAX_NEGATIVE} rows, which the {name} of a language model cannot be: "
                    f"{self._binding.when_negative(name)}"
                )
            if not is_negative or self._negative[name] == self._MAX_NEGATIVE:
                del self._negative[name]

    def _count_zeros(self, values: Mapping[str, float]) -> None:
        for name in self._zeros.keys() & values.keys():
            remedy = self._binding.when_zero(name)
            if values[name] != 0.0 or not remedy:
                del self._zeros[name]
                continue
            self._zeros[name] += 1
            if self._zeros[name] == self._MAX_ZEROS:
                del self._zeros[name]
                source = self._binding.source(name)
                reason = (
                    f"{source} has been exactly 0 for its first {self._MAX_ZEROS} rows, as if KL "
                    f"were not measured: {remedy}"
                )
                self._binding.not_measured[name] = reason
                for line in self._unsaid([reason]):
                    self._say(line)


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
            reasons[detector.name] = f"idle: {_why_missing(detector.watches[0], binding)}"
    return reasons


def watched(detectors: Iterable[Detector], binding: Binding) -> list[str]:
    """Return the detectors that judge a metric. Noticing missing metrics is not judging."""
    detectors = list(detectors)
    resting = idle(detectors, binding)
    return [d.name for d in detectors if d.name not in resting and not d.watches_all]


def watched_lines(detectors: Iterable[Detector], binding: Binding) -> list[str]:
    """Return one line per watched metric: its key, its kind and its detectors."""
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
    """Return the watched metrics, with key and kind, in one line."""
    read = [line.rpartition(": ")[0] for line in watched_lines(detectors, binding)]
    return f"watching {', '.join(what for what in read if what != 'all of them') or 'nothing'}"


def idle_lines(detectors: Iterable[Detector], binding: Binding) -> list[str]:
    """Return one line with the detectors that lack a metric, and one with those that are off."""
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
        absent = [f"{metric} ({', '.join(names)})" for metric, names in missing.items()]
        if len(missing) > _MAX_METRICS_NAMED:  # which would take three lines of a terminal
            absent = [*missing]
        count = sum(map(len, missing.values()))
        idle_ones = "1 detector has" if count == 1 else f"{count} detectors have"
        these = "this is" if len(missing) == 1 else "these are"
        lines.append(
            f"{idle_ones} nothing to read, because {these} not logged: {', '.join(absent)}"
        )
    if off:
        lines.append(f"off (enabled: false): {', '.join(off)}")
    return lines


def hints(detectors: Iterable[Detector], binding: Binding, *, from_log: bool = False) -> list[str]:
    """Return what the user can do about metrics that are not watched, one line each.

    `from_log` is for a log that a command reads: the remedies are options of that command.
    """
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
            reason = _why_missing(metric, binding, from_log=from_log)
            if reason != _missing(metric):
                found.append(reason)
    return [*found, *binding.not_measured.values()]


def nothing_known(binding: Binding) -> str:
    """Return the message that no detector reads what a run logs, with the keys it logs."""
    names = binding.names()
    held = ", ".join(names[:_MAX_KEYS_NAMED]) or "no numbers"
    more = ", ..." if len(names) > _MAX_KEYS_NAMED else ""
    return f"no detector knows any of the metrics that are logged: {held}{more}"


def unknown_columns(binding: Binding) -> str:
    """Say what a log holds in which nothing is known to a detector, and what to do about it."""
    names = sorted(binding.names())
    held = ", ".join(names[:_MAX_KEYS_NAMED]) or "no numbers"
    more = ", ..." if len(names) > _MAX_KEYS_NAMED else ""
    alike = [
        (metric, name)
        for metric in METRICS.keys() - binding.keys.keys()
        for name in names
        if _is_alike(metric, name)
    ]
    metric, column = min(alike, key=lambda pair: [*METRICS].index(pair[0]), default=_EXAMPLE)
    mapping = shlex.quote(f"{metric}={column}")
    hint = f"; say which column is which with --map {mapping}" if names else ""
    return f"it holds {held}{more}{hint}"


def _is_alike(metric: str, name: str) -> bool:
    return metric in re.split(r"[^a-z]+", name.lower())


def _is_of_probe(detector: Detector) -> bool:
    """Tell whether it reads what klarm's own probe measures, if somebody uses it."""
    metric = METRICS.get(detector.watches[0])
    return metric is not None and metric.by_probe


def _source(metric: str, binding: Binding) -> str:
    """Return a metric with its key, and with its kind if it is known."""
    key, kind = binding.source(metric), binding.kind(metric)
    if kind is not None:
        return f"{metric} ← {key} ({kind})"
    return metric if key == metric else f"{metric} ← {key}"


def _why_missing(metric: str, binding: Binding, *, from_log: bool = False) -> str:
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
    alike = [name for name in binding.names() if _is_alike(metric, name)]
    if alike:
        remedy = f"log it as {metric} or set {SECTION}.{metric}: {alike[0]}"
        if from_log:
            remedy = f"use --map {shlex.quote(f'{metric}={alike[0]}')}"
        return f"{reason}; if {alike[0]} is {known.meaning}, {remedy}"
    why = known.when_missing.get(binding.framework.partition("/")[0])
    if not why:
        return reason
    is_unknown = known.target and not binding.framework and set(binding.names()) - METRICS.keys()
    name_it = f"use --map {metric}=NAME" if from_log else f"set {SECTION}.{metric}: NAME"
    hint = f"; if one of the names that are logged is a KL, {name_it}" if is_unknown else ""
    return f"{reason} ({why}){hint}"


def _missing(metric: str) -> str:
    return f"no {metric} is logged"
