"""Real training runs in TRL, SB3 and RLlib, as `make framework-runs` has recorded them.

Some train as they should; in the others the learning rate was multiplied by 100, or absurd from the
start. Runs with even seeds are for tuning, those with odd ones for reporting.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from framework_runs import archive
from quality.contenders import Notification, notified
from quality.real_runs import Rate
from quality.scoring import share

# People are to be notified, and woken, within this many rows of the change.
NOTIFIED_ROWS, CRITICAL_ROWS = 25, 40
_CAUSE = "learning rate"


@dataclass(frozen=True)
class Outcome:
    """What was said of one run, and what became of it."""

    name: str
    label: str  # healthy, failing, unharmed, unclear
    has_kl: bool
    onset: int  # row
    notifications: list[Notification]

    def told_in_time(self) -> bool:
        """Return whether people were notified soon after the change."""
        return any(
            notification.row <= self.onset + NOTIFIED_ROWS for notification in self._since_onset()
        )

    def critical_in_time(self) -> bool:
        """Return whether people were woken soon after the change."""
        critical = [
            notification
            for notification in self._since_onset()
            if notification.severity == "critical"
        ]
        return any(notification.row <= self.onset + CRITICAL_ROWS for notification in critical)

    def cause_found(self) -> bool:
        """Return whether people read what was done to the run."""
        return any(notification.pattern.startswith(_CAUSE) for notification in self._since_onset())

    def is_right(self) -> bool:
        """Return whether all that is wanted of a failing run was said."""
        return self.told_in_time() and self.critical_in_time() and self.cause_found()

    def _since_onset(self) -> list[Notification]:
        return [
            notification
            for notification in self.notifications
            if notification.row >= self.onset - 1
        ]


def recorded(split: str) -> list[dict[str, Any]]:
    """Return the runs of one half, with what became of them: `tuning` or `reporting`."""
    return [run for run in archive.entries(archive.read()) if run["split"] == split]


def watch(entry: dict[str, Any]) -> Outcome:
    """Run the monitor over one of them."""
    rows = entry["rows"]
    first = entry["onset_step"] or 0
    return Outcome(
        name=entry["name"],
        label=entry["label"],
        has_kl=entry["kl_to_reference"],
        onset=next((row for row, (step, _) in enumerate(rows) if step >= first), 0),
        notifications=notified(rows, f"{entry['framework']}/{entry['algorithm']}"),
    )


def rates(outcomes: Sequence[Outcome]) -> list[Rate]:
    """Return the shares the issue sets targets for."""
    healthy = [outcome for outcome in outcomes if outcome.label == "healthy"]
    failing = [outcome for outcome in outcomes if outcome.label == "failing"]
    without_kl = [outcome for outcome in failing if not outcome.has_kl]
    return [
        _rate("healthy: any incident", [bool(o.notifications) for o in healthy], at_most=0.05),
        _rate(
            f"failing: notified within {NOTIFIED_ROWS} rows",
            [o.told_in_time() for o in failing],
            at_least=0.90,
        ),
        _rate("  without a KL", [o.told_in_time() for o in without_kl]),
        _rate(
            f"failing: critical within {CRITICAL_ROWS} rows",
            [o.critical_in_time() for o in failing],
            at_least=0.85,
        ),
        _rate("  without a KL", [o.critical_in_time() for o in without_kl]),
        _rate("failing: cause named", [o.cause_found() for o in failing], at_least=0.85),
        _rate("  without a KL", [o.cause_found() for o in without_kl]),
    ]


def mistakes(outcomes: Sequence[Outcome]) -> dict[str, list[str]]:
    """Return which runs went wrong, each with what was said. For runs to tune on only."""
    wrong: dict[str, list[str]] = {"healthy, notified": [], "failing, late or cause not named": []}
    for outcome in outcomes:
        said = ", ".join(
            f"{notification.detector} {notification.severity} at row {notification.row}"
            for notification in outcome.notifications
        )
        if outcome.label == "healthy" and said:
            wrong["healthy, notified"].append(f"{outcome.name} ({said})")
        elif outcome.label == "failing" and not outcome.is_right():
            where = f"onset {outcome.onset}" + (f"; {said}" if said else "")
            wrong["failing, late or cause not named"].append(f"{outcome.name} ({where})")
    return wrong


def _rate(
    what: str,
    hits: Sequence[bool],
    at_most: float | None = None,
    at_least: float | None = None,
) -> Rate:
    estimate = share(sum(hits), len(hits))
    return Rate(what, len(hits), 0, estimate, estimate, at_most, at_least)
