"""Zero signal: in most groups all rewards are equal, so nothing can be learnt from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from klarm.detectors.base import ROWS_BEYOND, Detector
from klarm.settings import setting
from klarm.types import SEVERITIES, Alert, Severity


@dataclass(kw_only=True, eq=False)
class ZeroSignalDetector(Detector):
    """Warns when more than `share` of the groups have had equal rewards for a number of rows.

    An advantage is the reward minus the mean of its group. In such a group it is zero, and so is
    the gradient. Critical above `critical_share` for as long. One alert opens an incident,
    because it already takes many rows.

    >>> detector = ZeroSignalDetector()
    >>> alerts = [detector.update(step, {"zero_std_fraction": 0.9}) for step in range(21)]
    >>> [alert.step for alert in alerts if alert]
    [20]
    """

    name: ClassVar[str] = "zero_signal"
    signal: ClassVar[str] = "advantage"
    watches: ClassVar[tuple[str, ...]] = ("zero_std_fraction",)
    has_fixed_limit: ClassVar[bool] = True
    messages: ClassVar[Mapping[str, str]] = dict.fromkeys(
        SEVERITIES,
        "In {value:%} of the groups all rewards are equal. The share has been above {limit:%} for "
        "{rows_beyond} rows[ ({severity} after {needed})].",
    )
    recommendations: ClassVar[Mapping[Severity, str]] = {
        "warning": (
            "Check whether the groups are all right or all wrong, and choose prompts of medium "
            "difficulty. More samples per group or a finer reward help, too."
        ),
        "critical": (
            "Check what the groups have in common: most of the compute gives no gradient. If they "
            "are all right, the task is learnt: stop or use harder prompts. If they are all wrong, "
            "use easier ones or a finer reward. If all samples are alike, the policy has "
            "collapsed: go back to a checkpoint."
        ),
    }

    share: float = setting(
        0.5, "warning while more than this share of the groups has equal rewards", above=0
    )
    critical_share: float = setting(
        0.75, "critical while more than this share of the groups has equal rewards", above=0
    )
    consecutive_steps: int = setting(20, "number of consecutive values above the share", at_least=1)

    def _start(self) -> None:
        # The number of consecutive values above each share.
        self._above = 0
        self._above_critical = 0

    def _observe(self, step: int, value: float) -> Alert | None:
        self.score = value
        self._above = self._above + 1 if value > self.share else 0
        self._above_critical = self._above_critical + 1 if value > self.critical_share else 0
        severity: Severity
        if self._above_critical >= self.consecutive_steps:
            severity, limit, rows = "critical", self.critical_share, self._above_critical
        elif self._above >= self.consecutive_steps:
            severity, limit, rows = "warning", self.share, self._above
        else:
            return None
        needed = float(self.consecutive_steps)
        facts = {ROWS_BEYOND: float(rows), "limit": limit, "needed": needed}
        return self._alert(severity, step, value, facts, decisive=True)
