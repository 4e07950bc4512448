"""The rules of incidents, as settings: when they open, escalate, settle and end."""

from __future__ import annotations

from dataclasses import dataclass

from klarm.settings import check_settings, setting


@dataclass(kw_only=True)
class IncidentRules:
    """The settings of docs/incidents.md, counted in rows of the signal.

    A row of a signal is a step at which one of its detectors had a value to judge.
    """

    confirm_steps: int = setting(
        5, "consecutive rows with an alert that open an incident", at_least=1
    )
    resolve_after: int = setting(
        20, "consecutive rows without an alert that resolve or settle an incident", at_least=1
    )
    accept_after: int = setting(
        200, "rows without an alert after which a settled level is accepted as normal", at_least=1
    )
    reopen_within: int = setting(
        100,
        "an incident that returns within this many rows of its recovery is reopened",
        at_least=0,
    )
    reopen_limit: int = setting(
        2, "number of reopenings after which resolving takes reopen_within quiet rows", at_least=0
    )
    reopen_factor: float = setting(
        3.0, "times its earlier peak at which a reopening notifies people", above=1
    )
    escalate_factor: float = setting(
        10.0, "times the peak last notified at which an open incident escalates", above=1
    )
    escalate_later_factor: float = setting(
        3.0, "the same once escalate_later_after rows have passed", above=1
    )
    escalate_later_after: int = setting(
        50, "rows since the last notification for escalate_later_factor", at_least=1
    )
    relapse_factor: float = setting(
        1.5, "times a settled, closed or accepted level that are new trouble", above=1
    )

    def __post_init__(self) -> None:
        check_settings(self, "incidents")
