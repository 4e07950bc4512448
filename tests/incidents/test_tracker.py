"""Incidents: when they open, escalate and end, without repeated or late events."""

from __future__ import annotations

import math
import random
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import klarm
from cases import over
from klarm.analysis.replay import replay
from klarm.config.layers import load
from klarm.detectors import (
    EntropyCollapseDetector,
    KLBudgetDetector,
    KLExplosionDetector,
    MetricLostDetector,
    RewardCollapseDetector,
    RewardDriftDetector,
    TrustRegionDetector,
)
from klarm.incidents.rules import IncidentRules
from klarm.incidents.tracker import Tracker
from klarm.journal.file import MemoryJournal
from klarm.monitor.monitor import Monitor
from klarm.settings.fields import ConfigError
from klarm.sources import read_log
from klarm.types import Alert, Blip, Event, Severity
from made_alerts import made_alert

pytestmark = pytest.mark.usefixtures("one_detector")

QUIET = None
KL = {"kl": 1.0}


def alert(step: int, severity: Severity = "warning", *, decisive: bool = False) -> Alert:
    value = float(step)
    return made_alert({"kl": value}, severity, step, decisive=decisive)


def follow(
    said: list[str | None], confirm_steps: int = 5, resolve_after: int = 20
) -> list[tuple[str, int, str]]:
    """Feed one signal: `w`, `c`, `C` (decisive) or None a step; return what changed, and when."""
    rules = IncidentRules(confirm_steps=confirm_steps, resolve_after=resolve_after)
    incidents = Tracker([KLExplosionDetector(confirm_steps=0)], rules)
    changes: list[Event | Blip] = []
    for step, word in enumerate(said):
        severity: Severity = "warning" if word == "w" else "critical"
        alerts = [alert(step, severity, decisive=word == "C")] if word else []
        changes += incidents.update(step, KL, alerts)
    changes += incidents.end_step()
    return [
        (change.event if isinstance(change, Event) else "blip", change.step, change.severity)
        for change in changes
    ]


def test_five_steps_in_alert_open_an_incident_and_twenty_quiet_ones_resolve_it() -> None:
    """Counted to the step."""
    assert follow([*"wwww", QUIET]) == [("blip", 4, "warning")]
    assert follow([*"wwwww"]) == [("opened", 4, "warning")]
    assert follow([*"wwwww", *[QUIET] * 19]) == [("opened", 4, "warning")]
    assert follow([*"wwwww", *[QUIET] * 20]) == [
        ("opened", 4, "warning"),
        ("resolved", 24, "warning"),
    ]


def test_one_quiet_step_starts_the_count_again() -> None:
    """Only consecutive steps count. Once it is open, an alert restarts the quiet count."""
    assert follow([*"wwww", QUIET, *"wwww", QUIET]) == [
        ("blip", 4, "warning"),
        ("blip", 9, "warning"),
    ]
    calm = [QUIET] * 19
    assert follow([*"wwwww", *calm, "w", *calm])[-1] == ("opened", 4, "warning")


def test_a_decisive_alert_opens_immediately() -> None:
    """Whatever was before it."""
    assert follow(["C"]) == [("opened", 0, "critical")]
    assert follow(["w", "w", "C"]) == [("opened", 2, "critical")]


def test_a_detector_may_have_rules_of_its_own() -> None:
    """Zero means the rule of all detectors."""
    detector = KLExplosionDetector(confirm_steps=2, resolve_after=3)
    incidents = Tracker([detector], IncidentRules())
    events = []
    for step in range(8):
        alerts = [alert(step)] if step < 2 else []
        events += incidents.update(step, KL, alerts)
    events += incidents.end_step()
    assert [(event.event, event.step) for event in events if isinstance(event, Event)] == [
        ("opened", 1),
        ("resolved", 4),
    ]


def test_steps_without_the_metric_do_not_count() -> None:
    """They are neither in alert nor quiet: reward may be logged at every fourth step."""
    incidents = Tracker([KLExplosionDetector(confirm_steps=0)], IncidentRules(resolve_after=2))
    events = []
    for step in range(20):
        if step % 4 == 0:
            events += incidents.update(step, KL, [alert(step)])
        else:
            events += incidents.update(step, {"loss": 1.0}, [])
    assert [(event.event, event.step) for event in events if isinstance(event, Event)] == [
        ("opened", 16)
    ]


def test_several_dicts_of_one_step_are_one_step() -> None:
    """A signal with an alert in one of them was not quiet in another."""
    incidents = Tracker([KLExplosionDetector(confirm_steps=0)], IncidentRules(confirm_steps=3))
    events: list[Event | Blip] = []
    for step in range(3):
        events += incidents.update(step, {"kl": 1.0}, [alert(step)])
        events += incidents.update(step, {"kl": 1.0}, [])
        events += incidents.update(step, {"loss": 1.0}, [])
    assert [(change.step, type(change)) for change in events] == [(2, Event)]


def test_the_peak_is_that_of_the_first_metric() -> None:
    """KL to the reference and to the old policy are of one signal, but never one quantity."""
    watched = Monitor("a", [TrustRegionDetector(), KLBudgetDetector()])
    for kl, kl_old in ((5.0, 0.01), (6.0, 0.3), (7.0, 0.2)):
        watched.log({"kl": kl, "kl_old": kl_old})
    (incident,) = watched.incidents
    assert incident.detectors == ["trust_region", "kl_budget"]
    assert incident.peak == 0.3


def test_an_incident_knows_its_course() -> None:
    """First step, last alert, peak, number of alerts, and detectors in order."""
    watched = Monitor("a", [KLExplosionDetector(confirm_steps=0)], MemoryJournal())
    for value in [0.4, 0.6] * 50:
        watched.log({"kl": value})
    for value in (2.0, 9.0, 5.0, 7.0, 6.0, 8.0):
        watched.log({"kl": value * 10 ** watched.alert_counts["critical"]})
    (incident,) = watched.incidents
    assert (incident.number, incident.signal, incident.state) == (1, "kl", "open")
    assert (incident.started, incident.opened, incident.last_alert) == (100, 104, 105)
    assert (incident.severity, incident.alerts) == ("critical", 6)
    assert incident.peak == 8e5
    assert incident.detectors == ["kl_explosion"]
    assert incident.worst.step == 105  # which was ten times as bad as the one of the opening


def test_a_nan_is_the_highest_peak() -> None:
    """And opens at once."""
    watched = Monitor("a", [KLExplosionDetector(confirm_steps=0)], MemoryJournal())
    for value in (math.inf, math.nan, math.inf):
        watched.log({"kl": value})
    (incident,) = watched.incidents
    assert math.isnan(incident.peak)
    assert incident.opened == 0


def test_the_peak_of_a_fall_is_the_lowest_value() -> None:
    """The lower entropy is, the worse; a value that is not finite is the worst."""
    watched = Monitor("a", [EntropyCollapseDetector()])
    for value in [0.8] * 100 + [0.05, 0.01, 0.04, 0.02, 0.03, 0.06, 0.05]:
        watched.log({"entropy": value})
    (incident,) = watched.incidents
    assert incident.peak == 0.02  # at 0.01 the median of five had not fallen yet
    watched.log({"entropy": math.inf})
    assert incident.peak == math.inf


def test_a_more_severe_alert_may_reverse_the_direction() -> None:
    """Reward that rose while it was gamed, and then fell off a cliff."""
    detectors = [RewardDriftDetector(), RewardCollapseDetector()]
    incidents = Tracker(detectors, IncidentRules())
    for step, (name, severity, reward, worse) in enumerate(
        [
            ("reward_drift", "warning", 1.5, "higher"),
            ("reward_drift", "warning", 1.8, "higher"),
            ("reward_collapse", "critical", 0.3, "lower"),
            ("reward_drift", "warning", 1.9, "higher"),
            ("reward_collapse", "critical", 0.2, "lower"),
        ]
    ):
        said = made_alert({"reward": reward}, severity, step, name, decisive=True, worse=worse)  # type: ignore[arg-type]
        incidents.update(step, {"reward": reward}, [said])
    assert incidents.incidents[0].peak == 0.2


def test_the_peak_of_a_lost_metric_is_the_number_of_steps() -> None:
    """There is no value to give."""
    watched = Monitor("a", [MetricLostDetector()])
    for step in range(90):
        watched.log({"loss": float(step), **({"kl": 0.1 * step} if step < 30 else {})})
    (incident,) = watched.incidents
    assert incident.peak == 60.0


words = st.lists(st.sampled_from([None, None, "w", "c", "C"]), max_size=120)
NEXT = {
    "": {"opened", "blip"},
    "opened": {"escalated", "settled", "resolved"},
    "escalated": {"escalated", "settled", "resolved"},
    "settled": {"reopened", "resolved", "blip"},
    "reopened": {"escalated", "settled", "resolved"},
    "resolved": {"opened", "reopened", "blip"},
}


@given(words, st.integers(1, 6), st.integers(1, 10))
def test_events_always_come_in_a_valid_order(
    said: list[str | None], confirm_steps: int, resolve_after: int
) -> None:
    """Whatever detectors say, and a decisive critical is never hidden or delayed."""
    changes = follow(said, confirm_steps, resolve_after)
    state = ""
    for kind, _, _ in changes:
        assert kind in NEXT[state]
        state = state if kind == "blip" else kind
    assert len(set(changes)) == len(changes)
    critical_at = {step for kind, step, severity in changes if severity == "critical"}
    for step, word in enumerate(said):
        if word == "C" and step not in critical_at:
            # That is no news: the incident was critical already.
            before = [(kind, severity) for kind, at, severity in changes if at < step]
            assert before[-1][1] == "critical"
            assert before[-1][0] in ("opened", "escalated", "reopened")


def test_impossible_rules_are_refused() -> None:
    """As all impossible settings are."""
    with pytest.raises(ConfigError, match=r"incidents\.confirm_steps must be at least 1, got 0"):
        IncidentRules(confirm_steps=0)


def live_events(seed: int) -> list[Event]:
    """Log a random run with restarts and rollbacks; return the events its journals hold."""
    rng = random.Random(seed)
    step = 0
    for _ in range(3):
        klarm.init("a", console=False)
        for _ in range(rng.randint(1, 3)):
            level = rng.choice([0.01, 0.01, 3.0, math.nan])
            for _ in range(rng.randint(1, 120)):
                value = level * rng.lognormvariate(0, 1.0)
                klarm.log({"loss": 1.0}, step)
                klarm.log({"kl": value}, step)
                step += 1
            step = max(0, step - rng.randint(0, 60))
        if rng.random() < 0.5:
            klarm.finish()
    klarm.finish()
    return read_events()


def read_events() -> list[Event]:
    from klarm.journal.file import read_journal

    journal = Path("klarm_runs/a/journal.jsonl")
    return [record for record in read_journal(journal) if isinstance(record, Event)]


@over("seed", range(6))
def test_live_equals_replay_through_restarts_and_rollbacks(seed: int) -> None:
    """Each number opens once and ends at most once, and the last events agree with the state."""
    shutil.rmtree("klarm_runs", ignore_errors=True)
    live = live_events(seed)
    found = replay(read_log(Path("klarm_runs/a"), print), lambda recorded: load(recorded=recorded))
    assert [(e.event, e.step, e.signal, e.severity, e.started) for e in live] == [
        (e.event, e.step, e.signal, e.severity, e.started) for e in found.events
    ]
    opened = [event.id for event in live if event.event == "opened"]
    assert len(opened) == len(set(opened))
    keys = [(event.id, event.event, event.step) for event in live if event.event != "escalated"]
    assert len(keys) == len(set(keys))


def test_an_incident_that_is_rolled_back_is_resolved() -> None:
    """Otherwise a pager would ring for an undone incident; the next one has its own number."""
    journal = MemoryJournal()
    watched = Monitor("a", [KLExplosionDetector(confirm_steps=0)], journal)
    for step in range(50):
        watched.log({"kl": 0.1}, step)
    watched.log({"kl": math.nan}, 50)
    watched.log({"kl": 0.11}, 40)
    for step in range(41, 50):
        watched.log({"kl": 0.1}, step)
    watched.log({"kl": math.nan}, 50)
    events = [record for record in journal.records if isinstance(record, Event)]
    assert [(e.event, e.incident, e.step, e.reason) for e in events] == [
        ("opened", 1, 50, "not_finite"),
        ("resolved", 1, 40, "rolled_back"),
        ("opened", 2, 50, "not_finite"),
    ]
    assert events[0].pattern
    assert events[0].pattern
    assert (events[1].moved, events[1].pattern, events[1].remedy) == ("", "", "")


def test_an_open_incident_continues_in_the_next_process() -> None:
    """With its number and its id; nobody is notified again."""
    klarm.init("a", console=False)
    for step in range(50):
        klarm.log({"kl": 0.1 + step % 2 / 1000}, step)
    klarm.log({"kl": math.nan}, 50)
    watched = klarm.init("a", console=False)
    for step in range(51, 75):
        klarm.log({"kl": 0.1 + step % 2 / 1000}, step)
    assert [(e.event, e.incident, e.step) for e in read_events()] == [
        ("opened", 1, 50),
        ("ended", 1, 50),
        ("reopened", 1, 51),
        ("resolved", 1, 70),
    ]
    assert len({event.id for event in read_events()}) == 1
    assert [incident.state for incident in watched.incidents] == ["resolved"]


def test_an_escalation_has_the_message_of_its_step() -> None:
    """It says what is worse."""
    incidents = Tracker([KLExplosionDetector(confirm_steps=0)], IncidentRules())
    for step in range(150):
        peak = 0.3 if step < 149 else 30.0
        said = made_alert({"kl": peak}, step=step, decisive=True)
        changes = incidents.update(step, {"kl": peak}, [said])
    (event,) = changes
    assert isinstance(event, Event)
    assert (event.reason, event.peak, event.notified) == ("far_worse", 30.0, 0.3)


@pytest.mark.parametrize("over", [False, True], ids=["open", "resolved before"])
def test_an_undone_incident_that_returns_is_a_new_one(over: bool) -> None:
    """Otherwise people who know of the first one would never be notified of the second."""
    journal = MemoryJournal()
    watched = Monitor("a", [KLExplosionDetector()], journal)
    for normal in (0.5, 0.6):
        for step in range(100 if over else 55):
            watched.log({"kl": math.nan if step == 50 else normal}, step)
    opened = [r for r in journal.records if isinstance(r, Event) and r.event == "opened"]
    assert [(event.incident, event.step) for event in opened] == [(1, 50), (2, 50)]


def test_the_opening_has_the_numbers_of_the_step_it_opens_at() -> None:
    """Not those of the first alert, which may be much smaller."""
    watched = Monitor("a", [KLExplosionDetector(confirm_steps=3)], MemoryJournal())
    events: list[Event] = []
    watched.on_event.append(events.append)
    for value in [0.4, 0.6] * 50 + [3.0, 30.0, 300.0]:
        watched.log({"kl": value})
    assert events[0].message.startswith("KL 300 ")


def test_a_growing_number_of_steps_is_not_far_worse() -> None:
    """People are notified once that a metric is lost."""
    watched = Monitor("a", [MetricLostDetector()], MemoryJournal())
    events: list[Event] = []
    watched.on_event.append(events.append)
    for step in range(900):
        watched.log({"kl": 0.1 + step % 7, "reward": -0.5 if step > 50 else step / 100.0})
    assert [event.event for event in events] == ["opened"]


def test_the_peak_in_an_event_is_the_worst_row_with_or_without_an_alert() -> None:
    """People compare it with the curve."""
    incidents = Tracker([KLExplosionDetector(confirm_steps=0)], IncidentRules())
    said = made_alert({"kl": 0.3}, step=50, decisive=True)
    for step in range(53):
        peak = {50: 0.3, 51: 0.9}.get(step, 0.02)
        incidents.update(step, {"kl": peak}, [said] if step == 50 else [])
    (ended,) = incidents.finish()
    assert isinstance(ended, Event)
    assert ended.peak == 0.9
