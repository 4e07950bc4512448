"""Where a run is: which step a call to `log` is about, and what of that step is new."""

from __future__ import annotations

from collections.abc import Mapping

from klarm.metrics import to_number

# Beyond this a float cannot count steps any more.
_LARGEST_STEP = 2**53


def whole_step(step: object) -> int | None:
    """Return the step that something means, or None: a step is a whole number, from 0 on.

    >>> whole_step(5), whole_step(5.0), whole_step("5"), whole_step(-5.0), whole_step(0.5)
    (5, 5, 5, None, None)
    """
    if type(step) is int:  # nearly always
        return step if 0 <= step < _LARGEST_STEP else None
    number = to_number(step)
    if number is None or not 0 <= number < _LARGEST_STEP or number != int(number):
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

    def __init__(self) -> None:
        self.step: int | None = None  # the last one logged
        self.steps_logged = 0
        self._values: Mapping[str, float] = {}  # what it held
        self._goes_on_at: int | None = None  # nothing before this counts any more
        self.from_earlier_process = False  # and nothing was logged since

    def place(self, at: int | None) -> tuple[int, bool]:
        """Return the step meant, and whether the run goes on there from an earlier state.

        No step means the previous plus one.
        """
        if at is None:
            at = 0 if self.step is None else self.step + 1
        if self.from_earlier_process:
            return at, True
        earliest = self.step if self._goes_on_at is None else self._goes_on_at
        return at, earliest is not None and at < earliest

    def new_at(self, step: int, values: Mapping[str, float]) -> Mapping[str, float]:
        """Return what detectors have yet to see of a step: several dicts may make up one.

        A value that is not finite is always new.
        """
        if step == self.step and self._goes_on_at is None:
            seen = self._values
            self._values = {**values, **seen}
            return {n: v for n, v in values.items() if n not in seen or v - v != 0.0}
        self.step = step
        self.steps_logged += 1
        self._values = values
        self._goes_on_at = None
        return values

    def continue_after(self, step: int) -> None:
        """Take up a run that an earlier process brought to this step."""
        self.step = step
        self.from_earlier_process = True

    def go_on_at(self, step: int) -> None:
        """Set the run to just before a step."""
        self.step = step - 1
        self._goes_on_at = step
        self._values = {}
        self.from_earlier_process = False
