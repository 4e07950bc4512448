"""The base of all detectors: settings, warm-up, missing metrics, values that are not finite."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Literal

from klarm import speech
from klarm.detectors.declaration import declaration_problem
from klarm.metrics import CLAMP_NATS, Kind
from klarm.settings import (
    ConfigError,
    Configurable,
    check_settings,
    setting,
    settings_of,
)
from klarm.types import Alert, Severity, Worse

# Why other signals may excuse an alert: the reward is at its best, learning takes off, nothing else
# suffers, or the reward has risen with it.
Excused = Literal["", "solved", "taking_off", "harmless", "paid_for"]

# Facts that an alert may have for the incident that it opens.
LEVEL_BEFORE = "level_before"  # which level the metric came from; it is over when it is back there
ROWS_BEYOND = "rows_beyond"  # for how many rows it has been beyond its limit: since the first
OTHER_METRIC = "while"  # another metric whose numbers are in the message

Facts = Mapping[str, float | str]
NO_FACTS: Facts = MappingProxyType({})

# Many rules are critical at this many times what they warn at.
CRITICAL_FACTOR = 1.5


@dataclass(kw_only=True, eq=False)
class Detector(Configurable, ABC):
    """Learns from one metric, step by step, and raises an alert when it looks wrong.

    A subclass is a keyword-only dataclass whose fields are its settings, which are checked when it
    is created. It implements `_start`, which creates all its state, and `_observe`, which is called
    with finite values only. A step without the metric is skipped. NaN or infinity is a critical
    alert immediately, even during warm-up, and never enters a baseline.
    """

    # The file name, the section in klarm.yaml and the docs page: "kl_explosion".
    name: ClassVar[str]
    # What its incidents are about: "kl".
    signal: ClassVar[str]
    # The metric that it judges, first; others may follow as context.
    watches: ClassVar[tuple[str, ...]]
    # The metrics each of which is enough to judge: by default the first.
    reads: ClassVar[tuple[str, ...]]
    # What has happened, by severity or by the case of an alert, with the alert's facts in braces.
    messages: ClassVar[Mapping[str, str]] = {}
    # What to do, by severity.
    recommendations: ClassVar[Mapping[Severity, str]] = {}
    # The number of values that it needs before its first alert, however short the warm-up is.
    min_values: ClassVar[int] = 0
    # The setting, if any, whose default is a limit in nats per token, and no limit for sums.
    limit_per_token: ClassVar[str] = ""
    # Which direction of the metric is worse.
    worse: ClassVar[Worse] = "higher"
    # The number in its alerts that gives the peak of an incident: by default the metric.
    measures: ClassVar[str]
    # Whether one value that is not finite is enough to open an incident.
    not_finite_is_decisive: ClassVar[bool] = True
    # Whether it watches all metrics in the same way; `watches` then lists all of them.
    watches_all: ClassVar[bool] = False
    # When its incidents end. level: when the metric is back at its earlier level. size: when its
    # absolute value is. quiet: as soon as there are no more alerts, for example after a NaN or a
    # missing metric.
    recovery: ClassVar[Literal["level", "size", "quiet"]] = "level"
    # Whether its limit is fixed, rather than learnt from the run.
    has_fixed_limit: ClassVar[bool] = False
    # Whether it also judges values that a log repeats by filling forward; see monitor/held.py.
    # Alerts on them are recorded, but confirm no incident.
    counts_held_values: ClassVar[bool] = False
    # When other signals excuse its alerts, which are then recorded but open no incident; see
    # incidents/evidence.py. Empty: they always count.
    excused_when: ClassVar[Excused] = ""
    # Increase it if the meaning of an attribute changes, but not its name: snapshots from earlier
    # versions are then not used.
    state_version: ClassVar[int] = 1
    _notes_others: ClassVar[bool]  # whether it has a `_note` of its own

    enabled: bool = setting(True, "false disables this detector")
    warmup_steps: int = setting(
        20,
        "number of first values to learn from; of these, only NaN and infinity raise an alert",
        at_least=0,
    )
    confirm_steps: int = setting(
        0,
        "consecutive rows in alert that open an incident, unless one alert is enough; 0: as set "
        "under incidents",
        at_least=0,
    )
    resolve_after: int = setting(
        0, "rows without an alert that resolve an incident; 0: as set under incidents", at_least=0
    )

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._notes_others = cls._note is not Detector._note
        if cls.__dict__.get("watches"):  # an empty one is refused when a detector is made
            if "reads" not in cls.__dict__:
                cls.reads = cls.watches[:1]
            if "measures" not in cls.__dict__:
                cls.measures = cls.watches[0]

    def __post_init__(self) -> None:
        kind = type(self)
        wrong = declaration_problem(kind)
        if wrong:
            raise ConfigError(wrong)
        check_settings(self, self.name)
        speech.learn(self.name, kind.messages, kind.recommendations)
        self._metric = self.watches[0]
        self._silent_values = max(self.warmup_steps, self.min_values)
        # Why it cannot judge what this run logs; empty if it can. A reset keeps it.
        self.idle_because = ""
        self.reset()

    def reset(self) -> None:
        """Forget everything that was learnt."""
        # The score of the last value, in the unit of the detector's threshold: 0 during warm-up,
        # infinite for a value that is not finite.
        self.score = 0.0
        self._seen = 0
        self._relearnt = False  # whether it has learnt only from a level that people accepted
        self._start()

    @property
    def rows_per_check(self) -> int:
        """The number of rows for which its result holds: its alerts may pause for as many."""
        return 1

    def update(self, step: int, metrics: Mapping[str, float]) -> Alert | None:
        """Learn from one step; return an alert if it looks wrong."""
        if self._notes_others:
            self._note(step, metrics)
        value = metrics.get(self._metric)
        if value is None:
            return None
        if type(value) is not float:
            value = float(value)
        if value - value != 0.0:  # only NaN and the infinities
            self.score = math.inf
            return self._not_finite(step, self._metric, value)
        alert = self._observe(step, value)
        seen = self._seen = self._seen + 1
        if seen <= self._silent_values:
            self.score = 0.0
            return None
        return alert

    @property
    def quiet_values(self) -> int:
        """The number of first values that it only learns from."""
        return self._silent_values

    def relearn(self, rows: Iterable[tuple[int, Mapping[str, float]]]) -> None:
        """Learn only from these rows, because people have accepted their level as normal."""
        self.reset()
        for step, metrics in rows:
            self.update(step, metrics)
        self._relearnt = True

    @property
    def excuse(self) -> Excused:
        """When its alerts are excused in this run: `excused_when`, unless a setting changes it."""
        return self.excused_when

    @property
    def blind_spot(self) -> str:
        """What it could not watch in this run, and why, said when the run ends; usually empty."""
        return ""

    def looks_at(self, metrics: Mapping[str, object]) -> bool:
        """Return whether these metrics contain a value that it judges."""
        return not metrics.keys().isdisjoint(self.reads)

    def bound(self, key: str, kind: Kind | None) -> None:
        """Note, before the first value, the key and the kind of its metric.

        A limit per token means nothing for a sum over the sequence, so the detector is idle there
        unless the user has set a limit. It is also idle if a clamped metric cannot reach the limit.
        """
        name = self.limit_per_token
        if not name:
            return
        limit, default = getattr(self, name), settings_of(type(self))[name].default
        self.idle_because = ""
        if kind is not None and kind.per == "sequence" and limit == default:
            self.idle_because = (
                f"{key} is summed over the sequence, where a limit of {limit:g} nat means nothing; "
                f"set {self.name}.{name} to watch it"
            )
        elif kind is not None and kind.clamped and limit >= CLAMP_NATS:
            self.idle_because = (
                f"{key} is clamped within ±{CLAMP_NATS:g}, so it never exceeds {limit:g}; "
                f"set a lower {self.name}.{name} to watch it"
            )

    @abstractmethod
    def _start(self) -> None:
        """Create the initial state."""

    def _note(self, step: int, metrics: Mapping[str, float]) -> None:
        """Note other metrics of a step than the one that is judged, which may be missing."""

    @abstractmethod
    def _observe(self, step: int, value: float) -> Alert | None:
        """Judge a finite value, set `score`, then learn from the value."""

    def _alert(
        self,
        severity: Severity,
        step: int,
        value: float,
        facts: Facts = NO_FACTS,
        *,
        case: str = "",
        decisive: bool = False,
        worse: Worse | None = None,
    ) -> Alert:
        """Return an alert on the metric, with the facts that its message needs."""
        return Alert(
            detector=self.name,
            severity=severity,
            step=step,
            metric=self._metric,
            worse=worse or self.worse,
            metrics={self._metric: value, **facts},
            decisive=decisive,
            case=case,
        )

    def _not_finite(self, step: int, metric: str, value: float, facts: Facts = NO_FACTS) -> Alert:
        """Return the alert on a value that is NaN or infinite."""
        return Alert(
            detector=self.name,
            severity="critical",
            step=step,
            metric=metric,
            worse="not_finite",
            metrics={metric: value, **facts},
            decisive=self.not_finite_is_decisive,
        )
