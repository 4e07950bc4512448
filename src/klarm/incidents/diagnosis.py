"""The diagnosis of an incident: when it began, what else moved, and the pattern that fits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf

from msgspec.structs import replace

from klarm.detectors import Detector
from klarm.incidents.dates import Dates
from klarm.incidents.excuse import KL, PROBED, kl_budgets
from klarm.incidents.movement import Direction, Movement, summary
from klarm.incidents.playbook import JUMP_NOT_RULED_OUT, LIKE_A_JUMP, Circumstances, diagnose
from klarm.incidents.recent_rows import RecentRows
from klarm.incidents.restated import restated
from klarm.incidents.trends import (
    LOOK_BACK,
    component_movements,
    earlier_onset,
    movements_of,
    with_levels_before,
)
from klarm.metrics import Advice
from klarm.text import clean_line
from klarm.types import Event, Incident

_REWARD = "reward"  # the signal
# A failure within this many rows was there from the start.
_EARLY_ROWS = 30
# The policy has broken down if the median of this many latest entropies differs from the first one
# by this factor.
_EARLY_MEDIAN, _ENTROPY_FACTOR = 3, 2.0


def diagnosis_of(
    event: Event,
    incident: Incident,
    detectors: Sequence[Detector],
    recent: RecentRows,
    *,
    advice: Advice,
    dates: Dates,
) -> Event:
    """Return an event that opens or escalates an incident with its diagnosis.

    It also sets the onset of the incident, and restates the alert that the event is about. `advice`
    has the framework's own words for some patterns, `dates` what is known of other movements.
    """
    went: Direction = "up" if event.worse == "higher" else "down"
    own = {d.measures: went for d in detectors if d.name in event.detectors}
    if event.metric:
        own[event.metric] = went
    movements = movements_of(recent)
    steps = [step for step, _ in recent.last(LOOK_BACK)]
    if event.event == "opened" or incident.onset is None:  # otherwise it was said before
        dated = [dates.own_onset(metric, went, steps) for metric in own]
        found = [step for step in dated if step is not None] or _left(movements, own, went, recent)
        known = [] if incident.onset is None else [incident.onset]
        incident.onset = min([event.started, *known, *found])
        # When it is opened again after a rollback, some of these rows may no longer be kept.
        rows = recent.count(incident.onset, event.started)
        incident.onset_rows = max(incident.onset_rows, rows)
    if incident.worst.step == event.step:  # an earlier alert was restated when it was new
        for detector in detectors:
            if detector.name == incident.worst.detector:
                incident.worst = restated(incident.worst, detector, recent, incident.onset)
    event = replace(
        event,
        onset=incident.onset,
        onset_rows=incident.onset_rows,
        message=incident.worst.message,
    )
    early = event.severity == "critical" and _is_early(event, recent)
    movements = with_levels_before(dates.applied_to(movements, steps), recent)
    event = _explained(event, movements, own, kl_budgets(detectors), early=early)
    said = advice.patterns.get(event.pattern)
    if said is not None:
        event = replace(event, cause=said.cause or event.cause, remedy=said.remedy)
    if event.pattern in LIKE_A_JUMP and not recent.finite_values("learning_rate", -inf, inf):
        event = replace(event, remedy=f"{event.remedy} {JUMP_NOT_RULED_OUT}")
    if event.signal != _REWARD:
        return event
    components = dates.applied_to(component_movements(recent), steps)
    return _with_components(event, with_levels_before(components, recent))


def _left(
    movements: Iterable[Movement], own: Iterable[str], went: Direction, recent: RecentRows
) -> list[int]:
    """Return the steps at which the metrics of an incident left their normal range."""
    earlier = [earlier_onset(recent, metric, went) for metric in own]
    moved = [m for m in movements if m.metric in own and not m.steady]
    steps = [m.step for m in moved if m.direction in (went, "broken")]
    return [*steps, *(step for step in earlier if step is not None)]


def _explained(
    event: Event,
    movements: Iterable[Movement],
    own: Mapping[str, Direction],
    budgets: Mapping[str, float],
    *,
    early: bool,
) -> Event:
    """Return the event with what else moved, and with the pattern that fits.

    `own` maps the metrics in alert to their direction. If such a metric looks flat in these steps,
    the alert is trusted, because its detector looks further back or more closely. If no metric at
    all has moved there is no diagnosis, unless the run has just begun (`early`).
    """
    seen, trusted = [], []
    for movement in movements:
        if movement.direction == "flat" and movement.metric in own:
            direction = own[movement.metric]
            trusted.append(movement._replace(direction=direction, step=event.started))
        else:
            seen.append(movement)
    if not early and all(movement.direction == "flat" for movement in seen):
        return event
    at = Circumstances(event.started, critical=event.severity == "critical", early=early)
    pattern = diagnose(
        [*seen, *trusted], event.signal, at, budget=budgets[KL], probe_budget=budgets[PROBED]
    )
    others = [movement for movement in seen if movement.metric not in own]
    onset = event.started if event.onset is None else event.onset
    if pattern is None:
        return replace(event, moved=summary(others, onset))
    return replace(
        event,
        moved=summary(others, min([onset, *pattern.steps_in(seen)])),
        pattern=pattern.name,
        cause=pattern.cause,
        remedy=pattern.remedy,
    )


def _with_components(event: Event, found: Sequence[Movement]) -> Event:
    """Return an event on reward that also says which of several rewards moved."""
    if not found:
        return event
    others = f"; {event.moved}" if event.moved else ""
    return replace(event, moved=f"{clean_line(summary(found))}{others}")


def _is_early(event: Event, recent: RecentRows) -> bool:
    """Return whether the policy broke down when the run had just begun.

    Equal rewards in a group may be due to the task, so entropy must confirm it in that case.
    """
    if recent.rows_until(event.started) > _EARLY_ROWS:
        return False
    first, latest = recent.first_and_latest("entropy", _EARLY_MEDIAN)
    broke_down = latest < first / _ENTROPY_FACTOR or latest > first * _ENTROPY_FACTOR
    return event.signal != "advantage" or broke_down
