"""The diagnosis of an incident: when it began, what else moved, and the pattern that fits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf

from msgspec.structs import replace

from klarm.detectors import OTHER_METRIC, Detector, KLBudgetDetector
from klarm.incidents.checkpoints import unsafe_since
from klarm.incidents.dates import Dates, direction_of, raised_at
from klarm.incidents.excuse import KL, PROBED, kl_budgets
from klarm.incidents.movement import RATE, Movement, told
from klarm.incidents.pattern import Circumstances, Explained
from klarm.incidents.playbook import (
    JUMP_NOT_RULED_OUT,
    LIKE_A_JUMP,
    RATE_RAISED,
    diagnose,
)
from klarm.incidents.recent_rows import RecentRows
from klarm.incidents.restated import message_of, restated
from klarm.incidents.trends import (
    LOOK_BACK,
    component_movements,
    earlier_onset,
    movements_of,
)
from klarm.metrics import Advice
from klarm.types import Direction, Event, Incident

_REWARD = "reward"  # the signal
# A metric that moves within this many rows of a raised learning rate moves because of it.
_MAX_ROWS_AFTER = 2
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
    keys: Mapping[str, str],
    dates: Dates,
) -> Event:
    """Return an event that opens or escalates an incident with its diagnosis.

    It also sets the onset of the incident, and restates the alert that the event is about. `advice`
    has the framework's own words for some patterns, `keys` the names that the user has for metrics,
    and `dates` what is known of other movements.
    """
    went = direction_of(event.worse)
    own = {d.measures: went for d in detectors if d.name in event.detectors}
    if event.metric:
        own[event.metric] = went
    movements = movements_of(recent)
    way = "down" if _explodes_below(event, detectors) else went
    moves = any(movement.direction != "flat" for movement in movements)  # in these rows
    if event.event == "opened" or incident.onset is None:  # otherwise it was said before
        started, rate_raised = event.started, raised_at(movements)
        dated = [
            dates.own_onset(metric, way, recent, started=started, raised=rate_raised)
            for metric in own
        ]
        found = [step for step in dated if step is not None] or _left(movements, own, way, recent)
        known = [] if incident.onset is None else [incident.onset]
        incident.onset = min([event.started, *known, *found])
        # When it is opened again after a rollback, some of these rows may no longer be kept.
        rows = recent.count(incident.onset, event.started)
        incident.onset_rows = max(incident.onset_rows, rows)
        raised = _raised_just_before(incident.onset, movements, recent)
        unsafe = [step for step in (raised, incident.unsafe_from) if step is not None]
        earlier = [step for step in unsafe if step < incident.onset]
        incident.unsafe_from = min(earlier, default=None)
    if incident.worst.step == event.step:  # an earlier alert was restated when it was new
        for detector in detectors:
            if detector.name == incident.worst.detector:
                incident.worst = restated(incident.worst, detector, recent, incident.onset)
    event = replace(
        event,
        onset=incident.onset,
        onset_rows=incident.onset_rows,
        unsafe_from=incident.unsafe_from,
        message=message_of(incident),
    )
    early = event.severity == "critical" and _is_early(event, recent)
    dates = dates.including(incident, opens=event.event == "opened")
    in_message = incident.worst.metrics.get(OTHER_METRIC)
    movements = [
        movement._replace(
            in_message=movement.metric == in_message, key=keys.get(movement.metric, "")
        )
        for movement in dates.applied_to(movements, recent)
    ]
    at = Circumstances(
        event.started,
        over=_is_over(movements, detectors),
        critical=event.severity == "critical",
        early=early,
        before=dates.said.causes.get(event.incident),
    )
    explaining, explained = _explained(event, movements, own, kl_budgets(detectors), at)
    if not moves and at.critical and not (explained is not None and explained.returns):
        # The detector's advice on a critical alert is better than that of an earlier warning.
        explaining = replace(event, also=explaining.also)
    event = explaining
    if explained is not None:
        dates.said.causes[event.incident] = explained
    if event.pattern == RATE_RAISED:
        event = _unsafe_since_raised(event, incident, movements)
    said = advice.patterns.get(event.pattern)
    if said is not None:
        event = replace(
            event,
            cause=said.cause or event.cause,
            remedy=said.remedy,
            action="go_back" if said.goes_back else "",
        )
    if event.pattern in LIKE_A_JUMP and not recent.finite_values("learning_rate", -inf, inf):
        event = replace(event, remedy=f"{event.remedy} {JUMP_NOT_RULED_OUT}")
    if event.signal != _REWARD:
        return event
    return _with_components(event, dates.applied_to(component_movements(recent), recent))


def _explodes_below(event: Event, detectors: Iterable[Detector]) -> bool:
    """Return whether the size of a metric counts, such as that of a loss, and it is negative."""
    by_size = any(d.recovery == "size" for d in detectors if d.name in event.detectors)
    return by_size and not isinstance(event.peak, str) and event.peak < 0.0


def _left(
    movements: Iterable[Movement], own: Iterable[str], went: Direction, recent: RecentRows
) -> list[int]:
    """Return the steps at which the metrics of an incident left their normal range."""
    earlier = [earlier_onset(recent, metric, went) for metric in own]
    moved = [m for m in movements if m.metric in own and not m.steady]
    steps = [m.step for m in moved if m.direction in (went, "broken")]
    return [*steps, *(step for step in earlier if step is not None)]


def _raised_just_before(
    onset: int, movements: Iterable[Movement], recent: RecentRows
) -> int | None:
    """Return where the learning rate was raised, if that was at most a few rows before the onset.

    The update of that step was already a bad one, even if the metrics of the step look normal.
    """
    rows_before = [step for step, _ in recent.last(LOOK_BACK) if step < onset][-_MAX_ROWS_AFTER:]
    raised = (m.step for m in movements if m.metric == RATE and m.direction == "up")
    return next((step for step in raised if step in rows_before), None)


def _unsafe_since_raised(event: Event, incident: Incident, movements: Iterable[Movement]) -> Event:
    """Return an event that the raised learning rate explains: no later checkpoint is safe."""
    raised = raised_at(movements)
    if not 0 < raised < unsafe_since(event):
        return event
    incident.unsafe_from = raised
    return replace(event, unsafe_from=raised)


def _explained(
    event: Event,
    movements: Iterable[Movement],
    own: Mapping[str, Direction],
    budgets: Mapping[str, float],
    at: Circumstances,
) -> tuple[Event, Explained | None]:
    """Return the event with what else moved and with the pattern that fits, and what shows it.

    `own` maps the metrics in alert to their direction. If such a metric looks flat in these steps,
    the alert is trusted, because its detector looks further back or more closely. If no metric at
    all has moved there is no diagnosis, unless the run has just begun, or there was one before.
    """
    seen, trusted = [], []
    for movement in movements:
        if movement.direction == "flat" and movement.metric in own:
            direction = own[movement.metric]
            trusted.append(movement._replace(direction=direction, step=event.started))
        else:
            seen.append(movement)
    nothing_moved = all(movement.direction == "flat" for movement in seen)
    if nothing_moved and not at.early and at.before is None:
        return event, None
    known = [*seen, *trusted]
    pattern = diagnose(known, event.signal, at, budget=budgets[KL], probe_budget=budgets[PROBED])
    others = [movement for movement in seen if movement.metric not in own]
    onset = event.started if event.onset is None else event.onset
    if pattern is None:
        return replace(event, also=told(others, onset)), None
    levels = pattern.levels_in(known)
    if at.before is not None and at.before.pattern == pattern.name:
        levels = {**at.before.levels, **levels}
    event = replace(
        event,
        also=told(others, min([onset, *pattern.steps_in(seen)])),
        pattern=pattern.name,
        cause=pattern.cause,
        remedy=pattern.remedy,
        action="go_back" if pattern.returns == "first" else "",
    )
    return event, Explained(pattern.name, levels, bool(pattern.returns))


def _is_over(movements: Iterable[Movement], detectors: Iterable[Detector]) -> bool:
    """Return whether KL, as the trainer or as the probe measures it, has exceeded its budget."""
    levels = {movement.metric: abs(movement.level) for movement in movements}
    budgets = [detector for detector in detectors if isinstance(detector, KLBudgetDetector)]
    return any(levels.get(detector.measures, 0.0) > detector.limit_nats for detector in budgets)


def _with_components(event: Event, found: Sequence[Movement]) -> Event:
    """Return an event on reward that also says which of several rewards moved."""
    parts = tuple(replace(part, is_part=True) for part in told(found))
    return replace(event, also=(*parts, *event.also))


def _is_early(event: Event, recent: RecentRows) -> bool:
    """Return whether the policy broke down when the run had just begun.

    Equal rewards in a group may be due to the task, so entropy must confirm it in that case.
    """
    if recent.rows_until(event.started) > _EARLY_ROWS:
        return False
    first, latest = recent.first_and_latest("entropy", _EARLY_MEDIAN)
    broke_down = latest < first / _ENTROPY_FACTOR or latest > first * _ENTROPY_FACTOR
    return event.signal != "advantage" or broke_down
