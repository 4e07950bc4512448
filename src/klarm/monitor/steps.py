"""The position of a run: which step a call of `log` belongs to, and which of its values are new."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Set

from klarm.journal import History, LateRow, Resume
from klarm.metrics import METRICS, counts, to_number
from klarm.types import Command

# Beyond this, a float cannot represent every whole number.
_MAX_STEP = 2**53


def whole_step(step: object) -> int | None:
    """Return a value as a step, or None if it is not a whole number from 0 on.

    >>> whole_step(5), whole_step(5.0), whole_step("5"), whole_step(-5.0), whole_step(0.5)
    (5, 5, 5, None, None)
    """
    if type(step) is int:  # nearly always
        return step if 0 <= step < _MAX_STEP else None
    number = to_number(step)
    if number is None or not 0 <= number < _MAX_STEP or number != int(number):
        return None
    return int(number)


class Timeline:
    """Follows the steps of a run as the trainer logs them.

    >>> timeline = Timeline()
    >>> timeline.place(None), timeline.new_at(0, {"kl": 0.1})
    ((0, False), {'kl': 0.1})
    >>> timeline.new_at(0, {"kl": 0.2, "loss": 1.0})  # the same step again
    {'loss': 1.0}
    """

    def __init__(self, known: Set[str] = METRICS.keys()) -> None:
        """Begin. `known` are the metrics that may be judged; others may be any number."""
        self._known = known
        self.step: int | None = None  # the last one logged
        self.steps_logged = 0
        self._values: Mapping[str, float] = {}  # the values of the last step
        self._names: list[str] = []  # of the last row that was not of the same step
        self._logged: dict[str, int] = {}  # the last step of metrics that are not in `_values`
        self._resumed_at: int | None = None  # the step of a resume after which nothing was logged
        self.from_earlier_process = False  # whether this process has not logged anything yet

    def place(self, at: int | None) -> tuple[int, bool]:
        """Return the step, and whether it is earlier than expected, as after a rollback.

        None means the step after the previous one.
        """
        if at is None:
            at = 0 if self.step is None else self.step + 1
        if self.from_earlier_process:
            return at, True
        earliest = self.step if self._resumed_at is None else self._resumed_at
        return at, earliest is not None and at < earliest

    def new_at(self, step: int, values: Mapping[str, float]) -> Mapping[str, float]:
        """Return the values that are new at a step, which may be logged in several calls.

        A value that is not finite is always new.
        """
        if step == self.step and self._resumed_at is None:
            seen = self._values
            self._values = {**values, **seen}
            return {n: v for n, v in values.items() if counts(n, v, seen)}
        names = [*values]
        if names != self._names or len(names) != len(self._values):  # rare: mostly the same metrics
            self._note(self._values, self.step)
            self._names = names
        self.step = step
        self.steps_logged += 1
        self._values = values
        self._resumed_at = None
        return values

    def logged_since(self, step: int, names: Iterable[str]) -> set[str]:
        """Return which of these metrics were logged at a step or later."""
        return {name for name in names if self._last_step_of(name) >= step}

    def note_late(self, step: int, names: Iterable[str]) -> None:
        """Note that metrics were logged late, for a step before the current one."""
        self._note((name for name in names if self._last_step_of(name) < step), step)

    def continue_after(self, step: int) -> None:
        """Continue a run of an earlier process, which ended at this step."""
        self.step = step
        self.from_earlier_process = True

    def go_on_at(self, step: int) -> None:
        """Set the position to just before a step."""
        self.step = step - 1
        self._resumed_at = step
        self._values = {}
        self.from_earlier_process = False

    def logged(self) -> dict[str, int]:
        """Return the metrics that were logged, and the last step of each."""
        known = self._known & self._values.keys()
        return {**self._logged, **dict.fromkeys(known, self.step or 0)}

    @property
    def seen(self) -> Mapping[str, float]:
        """The values that the current step has so far."""
        return self._values

    def following(
        self, history: Iterable[History], logged: Mapping[str, int] | None = None
    ) -> Iterator[History]:
        """Yield the history from which a run is rebuilt, noting the last step of each metric.

        `logged` is the last step of each metric before the history.
        """
        self._values, self._logged = {}, dict(logged or {})
        at: int | None = None  # the step of the last row
        names: Collection[str] = ()  # the metrics of the last row
        for entry in history:
            if isinstance(entry, LateRow):
                self._note(names, at)
                at = None
                self._note(entry.values, entry.late)
            elif not isinstance(entry, Command | Resume):
                if entry[1].keys() != names:  # rare: rows mostly have the same metrics
                    self._note(names, at)
                at, names = entry[0], entry[1].keys()
            yield entry
        self._note(names, at)

    def _last_step_of(self, name: str) -> int:
        """Return the last step at which a metric was logged; -1 if it never was."""
        if name in self._values and self.step is not None:
            return self.step
        return self._logged.get(name, -1)

    def _note(self, names: Iterable[str], step: int | None) -> None:
        if step is not None:
            self._logged.update(dict.fromkeys(self._known & set(names), step))
