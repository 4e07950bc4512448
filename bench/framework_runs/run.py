"""One training run: what it trains, with which learning rate, and its results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Row = dict[str, Any]  # `step` and the metrics of one update
Change = Literal["none", "jump", "start"]

JUMP_FACTOR = 100.0
# Where in a run the learning rate jumps, by seed: between a third and half of the rows.
_JUMP_SHARES = (0.34, 0.42, 0.5)


@dataclass(frozen=True)
class Run:
    """A recipe for one run. Runs of the same setting differ only in seed and change."""

    framework: str
    algorithm: str
    setting: str
    seed: int
    rows: int
    learning_rate: float
    change: Change = "none"
    start_rate: float = 0.1  # what "start" trains with
    options: Mapping[str, Any] = field(default_factory=dict)
    jump_factor: float = JUMP_FACTOR

    @property
    def family(self) -> str:
        """The name without the change and the seed."""
        return f"{self.framework}-{self.algorithm}-{self.setting}".lower()

    @property
    def name(self) -> str:
        """The name of the log file."""
        return f"{self.family}-{self.change}-s{self.seed}"

    @property
    def sane_rows(self) -> int:
        """How many updates are made with the intended learning rate."""
        if self.change == "jump":
            return round(self.rows * _JUMP_SHARES[self.seed % len(_JUMP_SHARES)])
        return 0 if self.change == "start" else self.rows

    @property
    def base_rate(self) -> float:
        """The learning rate of the first update, before any schedule."""
        return self.start_rate if self.change == "start" else self.learning_rate

    @property
    def changed(self) -> str:
        """What was done to the run, for the manifest."""
        if self.change == "jump":
            return f"learning rate ×{self.jump_factor:g} after row {self.sane_rows} of {self.rows}"
        if self.change == "start":
            return f"learning rate {self.start_rate:g} instead of {self.learning_rate:g}"
        return "nothing"

    @property
    def split(self) -> str:
        """Whether constants may be chosen on the run."""
        return "reporting" if self.seed % 2 else "tuning"

    def rate_factor(self, row: int) -> float:
        """Return the factor on the learning rate of an update; the first row is 1."""
        return self.jump_factor if self.change == "jump" and row > self.sane_rows else 1.0


def runs_of(
    framework: str,
    algorithm: str,
    setting: str,
    *,
    rows: int,
    learning_rate: float,
    healthy: Sequence[int] = (0, 1),
    jump: Sequence[int] = (),
    start: Sequence[int] = (),
    start_rate: float = 0.1,
    jump_factor: float = JUMP_FACTOR,
    **options: Any,
) -> list[Run]:
    """Return the runs of one setting: seeds by what is changed."""
    seeds: dict[Change, Sequence[int]] = {"none": healthy, "jump": jump, "start": start}
    return [
        Run(
            framework,
            algorithm,
            setting,
            seed,
            rows,
            learning_rate,
            change,
            start_rate,
            options,
            jump_factor,
        )
        for change, chosen in seeds.items()
        for seed in chosen
    ]


@dataclass(frozen=True)
class Recording:
    """The results of a run: the rows that klarm sees, and an undelayed score that it does not.

    The score has one entry per row, higher is better: the mean return of the episodes that ended
    since the last row, the reward, or the negative loss. It is None where nothing was measured.
    """

    rows: list[Row]
    score: list[float | None]
