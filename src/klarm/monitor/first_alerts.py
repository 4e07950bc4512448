"""Which alerts are shown although no incident reports them: the first of each episode.

If that is a warning, so is the first critical one: an earlier warning holds back nothing critical.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from klarm.detectors import Detector
from klarm.incidents import IncidentRules
from klarm.types import Alert


class FirstAlerts:
    """Picks the first alerts of every episode. An episode ends with `resolve_after` quiet rows.

    It only decides what a person sees of alerts that are not confirmed; incidents are decided
    elsewhere.
    """

    def __init__(
        self,
        detectors: Iterable[Detector],
        rules: IncidentRules,
        has_open: Callable[[str], bool],
    ) -> None:
        """Prepare to pick. `has_open` tells whether an incident on a signal is open."""
        self._detectors = {detector.name: detector for detector in detectors}
        self._rules = rules
        self._has_open = has_open
        self.reset()

    def reset(self) -> None:
        """Forget the episodes, as after a rollback: what comes again is shown again."""
        self.episodes: dict[str, int] = {}  # quiet rows, by the signals that are in an episode
        self._needed: dict[str, int] = {}  # of them, until the episode is over
        self._last_row: dict[str, int] = {}  # the step of the latest: dicts may make up one
        self._critical: set[str] = set()  # signals whose critical alerts are known in an episode

    def pick(self, step: int, values: Mapping[str, float], alerts: Sequence[Alert]) -> list[Alert]:
        """Return which alerts of a step are the first of an episode and not reported otherwise."""
        first_of: dict[str, Alert] = {}  # by signal
        for alert in alerts:
            detector = self._detectors[alert.detector]
            signal, needed = detector.signal, detector.resolve_after or self._rules.resolve_after
            if signal not in first_of or _is_first_critical(alert, first_of[signal]):
                first_of[signal] = alert
            self._needed[signal] = max(needed, self._needed.get(signal, 0))
        first = [
            alert
            for signal, alert in first_of.items()
            if self._is_news(signal, alert) and not self._has_open(signal)
        ]
        for signal, alert in first_of.items():
            if alert.severity == "critical":
                self._critical.add(signal)
            self.episodes[signal], self._last_row[signal] = 0, step
        self._end_row(step, values, [signal for signal in self.episodes if signal not in first_of])
        return first

    def _is_news(self, signal: str, alert: Alert) -> bool:
        if signal not in self.episodes:
            return True
        return alert.severity == "critical" and signal not in self._critical

    def _end_row(self, step: int, values: Mapping[str, float], signals: Iterable[str]) -> None:
        for signal in signals:
            if self._last_row[signal] == step or not self._has_row(signal, values):
                continue
            self._last_row[signal] = step
            self.episodes[signal] += 1
            if self.episodes[signal] >= self._needed[signal]:
                del self.episodes[signal], self._needed[signal], self._last_row[signal]
                self._critical.discard(signal)

    def _has_row(self, signal: str, values: Mapping[str, float]) -> bool:
        own = (d for d in self._detectors.values() if d.signal == signal and d.enabled)
        return any(detector.looks_at(values) for detector in own)


def _is_first_critical(alert: Alert, known: Alert) -> bool:
    return alert.severity == "critical" and known.severity != "critical"
