"""Reports during a run which metrics are watched, and which are missing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from klarm.detectors import Detector
from klarm.metrics import METRICS, SECTION, Binding
from klarm.monitor.coverage import idle_lines, watched, watched_lines
from klarm.monitor.missing import hints, nothing_known

_NOTHING_WATCHED = (
    "WARNING: nothing is watched: {} "
    f"(docs/metrics.md has the names; {SECTION} in klarm.yaml says which key is which)"
)


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
