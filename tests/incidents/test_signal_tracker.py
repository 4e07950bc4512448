"""The states of an incident: every way from pending to its end, counted to the row.

Covers episode.py, escalation.py, measured.py and reopening.py too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from cases import over
from klarm.detectors import (
    Detector,
    KLBudgetDetector,
    KLExplosionDetector,
    LossNanDetector,
    MetricLostDetector,
    RewardCollapseDetector,
    RewardHackingDetector,
    TrustRegionDetector,
)
from klarm.incidents.rules import IncidentRules
from klarm.incidents.tracker import Change, Tracker
from klarm.journal.identity import counting_ids
from klarm.types import Alert, Command, Event, Severity, Worse
from klarm.wording import why
from made_alerts import made_alert

NORMAL, HIGH = 0.02, 0.5


class Run:
    """A run whose alerts are given by hand, a row at a time."""

    def __init__(self, detectors: Sequence[Detector] | None = None, **rules: int | float) -> None:
        self.detectors = detectors or [KLExplosionDetector(confirm_steps=0), KLBudgetDetector()]
        self.tracker = Tracker(
            self.detectors,
            IncidentRules(**rules),  # type: ignore[arg-type]
            ids=counting_ids(),
        )
        self.changes: list[Change] = []
        self.step = -1

    def log(self, value: float = NORMAL, said: str = "", times: int = 1, **others: float) -> None:
        """Log rows of KL: with no alert, a warning `w`, a critical `c`; decisive `W`, `C`."""
        for _ in range(times):
            self.step += 1
            alerts = [self.alert(word, value) for word in said]
            values = {"kl": value, **others}
            self.changes += self.tracker.update(self.step, values, alerts)

    def alert(
        self,
        word: str,
        value: float,
        detector: str = "kl_explosion",
        metric: str = "kl",
        worse: Worse = "higher",
    ) -> Alert:
        severity: Severity = "warning" if word in "wW" else "critical"
        return made_alert(
            {metric: value}, severity, self.step, detector, decisive=word in "WC", worse=worse
        )

    def say(self, values: dict[str, float], *alerts: Alert, same_batch: bool = False) -> None:
        self.step += 1
        ours = [Alert(**{**fields(a), "step": self.step}) for a in alerts]
        self.changes += self.tracker.update(self.step, values, ours, same_batch=same_batch)

    def command(self, kind: str, id_: str = "k0000001") -> None:
        """Have a person close or accept an incident before the next row."""
        made = Command(command=kind, key="1", time=0.0, by="ada", incident=id_)  # type: ignore[arg-type]
        self.changes += self.tracker.apply(made, self.step + 1)

    def take(self) -> list[tuple[str, str, int]]:
        """Return the events so far as kind, reason and step, and forget them."""
        self.changes += self.tracker.end_step()
        found = [
            (c.event, c.reason, c.step) if isinstance(c, Event) else ("blip", "", c.step)
            for c in self.changes
        ]
        self.changes = []
        return found

    def events(self) -> list[Event]:
        self.changes += self.tracker.end_step()
        return [change for change in self.changes if isinstance(change, Event)]


def fields(alert: Alert) -> dict[str, object]:
    return {name: getattr(alert, name) for name in alert.__struct_fields__}


def settled(severity: str = "c", **rules: int | float) -> Run:
    """A run of 100 normal rows whose KL then jumps and stays; 20 quiet rows later it settles."""
    run = Run(**rules)
    run.log(times=100)
    run.log(HIGH, severity, times=5)
    run.log(HIGH, times=20)
    assert run.take()[-1] == ("settled", "settled", 124)
    return run


def test_a_warning_of_a_critical_alert_says_what_is_missing() -> None:
    """Five rows in alert confirm a warning; the last two of them were critical."""
    run = Run()
    run.log(times=40)
    run.log(HIGH, "w", times=3)
    run.log(HIGH, "c", times=2)
    (opened,) = [change for change in run.changes if isinstance(change, Event)]
    assert (opened.severity, opened.alert_severity) == ("warning", "critical")
    assert "This alert is critical; the incident becomes critical if such alerts continue." in why(
        opened
    )
    run.log(HIGH, "c", times=3)
    escalated = run.changes[-1]
    assert isinstance(escalated, Event)
    assert (escalated.severity, escalated.alert_severity) == ("critical", "critical")
    assert why(escalated) == "Raised from warning to critical."


def test_the_severity_is_the_highest_that_is_confirmed() -> None:
    """One critical alert among warnings does not wake anybody; five consecutive ones do."""
    run = Run()
    run.log(HIGH, "w", times=4)
    run.log(HIGH, "c")
    assert run.take() == [("opened", "confirmed", 4)]
    assert run.tracker.incidents[0].severity == "warning"
    run.log(HIGH, "c", times=3)
    assert run.take() == []
    run.log(HIGH, "c")
    assert run.take() == [("escalated", "severity_raised", 8)]


def test_a_decisive_critical_needs_no_confirmation() -> None:
    """Neither to open nor to escalate: a critical is never delayed by a warning."""
    run = Run()
    run.log(HIGH, "w", times=5)
    run.log(HIGH, "C")
    assert run.take() == [("opened", "confirmed", 4), ("escalated", "severity_raised", 5)]


def test_it_recovers_when_the_metric_is_back_at_its_level() -> None:
    """After twenty quiet rows with KL at its earlier level."""
    run = Run()
    run.log(times=50)
    run.log(HIGH, "c", times=5)
    run.log(times=20)
    assert run.take() == [("opened", "confirmed", 54), ("resolved", "recovered", 74)]


def test_quiet_at_a_broken_level_has_settled_and_is_still_open() -> None:
    """The detectors got used to it; the run did not recover."""
    run = settled()
    (incident,) = run.tracker.critical
    assert (incident.state, incident.is_open, incident.level) == ("settled", True, HIGH)
    run.log(HIGH, times=400)
    assert run.take() == []


def test_a_settled_incident_says_how_far_off_the_level_is() -> None:
    """The message has the level, and the level before."""
    run = Run()
    run.log(times=100)
    run.log(HIGH, "c", times=5)
    run.log(HIGH, times=20)
    event = run.events()[-1]
    assert (event.metric, event.level, event.before, event.rows) == ("kl", HIGH, NORMAL, 20)


def test_a_settled_incident_recovers_whenever_the_level_returns() -> None:
    """Half of the last ten rows are back, hundreds of rows later."""
    run = settled()
    run.log(HIGH, times=300)
    run.log(times=10)
    (end,) = run.take()
    assert end[:2] == ("resolved", "recovered")
    assert 425 <= end[2] < 435


def test_a_settled_warning_is_accepted_by_itself() -> None:
    """After 200 quiet rows, counted from the last alert."""
    run = settled("w")
    run.log(HIGH, times=179)
    assert run.take() == []
    run.log(HIGH)
    assert run.take() == [("resolved", "accepted", 304)]


def test_a_settled_critical_is_accepted_only_with_an_excuse_throughout() -> None:
    """In every row the reward pays for it, KL is far below its budget, and entropy holds."""
    for cost in (None, "reward", "entropy", "kl"):
        run = Run(relapse_factor=100.0)
        run.log(times=100, reward=0.4, entropy=1.0)
        run.log(0.2, "c", times=5, reward=0.4, entropy=1.0)
        run.log(0.2, times=100, reward=0.6, entropy=1.0)
        kl = 0.6 if cost == "kl" else 0.2
        reward = 0.4 if cost == "reward" else 0.6
        run.log(kl, times=20, reward=reward, entropy=0.5 if cost == "entropy" else 1.0)
        run.log(0.2, times=100, reward=0.6, entropy=1.0)
        ends = [event for event in run.take() if event[0] == "resolved"]
        assert ends == ([("resolved", "accepted", 304)] if cost is None else [])


def test_a_worse_alert_while_settled_is_a_new_incident() -> None:
    """At 1.5 times the settled level or more; the old one is superseded, and named."""
    run = settled()
    run.log(0.75, "C")
    assert run.take() == [("resolved", "superseded", 125), ("opened", "decisive", 125)]
    first, second = run.tracker.incidents
    assert (second.follows, second.id) == (first.id, "k0000002")
    run.log(0.75, times=20)
    assert run.take() == [("settled", "settled", 145)]
    run.log(times=10)
    assert run.take()[-1][:2] == ("resolved", "recovered")  # normal is what it was at first


def test_the_same_alert_while_settled_is_the_same_incident() -> None:
    """Silently, because people know of it."""
    run = settled()
    run.log(0.7, "C")
    assert run.take() == [("reopened", "alert_while_settled", 125)]
    run.log(HIGH, times=20)
    assert run.take() == [("settled", "settled", 145)]


def test_an_alert_that_is_not_confirmed_does_not_move_a_settled_incident() -> None:
    """It is a blip."""
    run = settled()
    run.log(5.0, "c", times=2)
    run.log(HIGH, times=5)
    assert run.take() == [("blip", "", 127)]
    assert run.tracker.incidents[0].state == "settled"


@pytest.mark.parametrize("word", ["W", "C"])
def test_a_higher_severity_or_another_kind_supersedes_a_settled_incident(word: str) -> None:
    """A settled warning does not mute another problem."""
    run = Run([KLExplosionDetector(confirm_steps=0), TrustRegionDetector()])
    run.log(times=100, kl_old=0.01)
    run.log(HIGH, "w", times=5, kl_old=0.01)
    run.log(HIGH, times=20, kl_old=0.01)
    run.take()
    if word == "C":
        run.log(HIGH, "C")
    else:
        run.say({"kl": HIGH, "kl_old": 1.0}, run.alert("W", 1.0, "trust_region", "kl_old"))
    assert [event[:2] for event in run.take()] == [
        ("resolved", "superseded"),
        ("opened", "decisive"),
    ]


def test_soon_after_its_recovery_the_same_incident_reopens_silently() -> None:
    """One run opened 36 incidents in 4,000 rows."""
    run = Run()
    run.log(times=100)
    for _ in range(2):
        run.log(HIGH, "C")
        run.log(times=20)
    assert run.take() == [
        ("opened", "decisive", 100),
        ("resolved", "recovered", 120),
        ("reopened", "returned", 121),
        ("resolved", "recovered", 141),
    ]
    assert [incident.id for incident in run.tracker.incidents] == ["k0000001"]


def test_long_after_its_recovery_a_new_incident_opens() -> None:
    """More than a hundred rows."""
    run = Run()
    run.log(times=100)
    run.log(HIGH, "C")
    run.log(times=20 + 101)
    run.log(HIGH, "C")
    assert [event[0] for event in run.take()] == ["opened", "resolved", "opened"]


@pytest.mark.parametrize(
    ("value", "word", "reason"), [(3 * HIGH, "W", "far_worse"), (HIGH, "C", "severity_raised")]
)
def test_a_reopening_that_is_far_worse_or_more_severe_notifies_people(
    value: float, word: str, reason: str
) -> None:
    """Three times the earlier peak, or critical where it was a warning."""
    run = Run()
    run.log(times=100)
    run.log(HIGH, "W")
    run.log(times=20)
    run.take()
    run.log(value, word)
    assert run.take() == [("reopened", "returned", 121), ("escalated", reason, 121)]


def test_after_two_reopenings_resolving_takes_a_hundred_quiet_rows() -> None:
    """An incident that comes and goes is one condition."""
    run = Run()
    run.log(times=100)
    for _ in range(3):
        run.log(HIGH, "C")
        run.log(times=20)
    run.take()
    run.log(times=79)
    assert run.take() == []
    run.log()
    assert [event[:2] for event in run.take()] == [("resolved", "recovered")]


def test_ten_times_the_notified_peak_escalates_immediately() -> None:
    """People only know of something ten times smaller."""
    run = Run()
    run.log(0.3, "C")
    run.log(3.0, "C")
    assert run.take() == [("opened", "decisive", 0), ("escalated", "far_worse", 1)]


def test_three_times_the_notified_peak_escalates_after_fifty_rows() -> None:
    """Not earlier, because it is the same explosion."""
    run = Run()
    run.log(0.3, "C")
    run.log(0.9, "C", times=49)
    assert run.take() == [("opened", "decisive", 0)]
    run.log(0.9, "C")
    assert run.take() == [("escalated", "far_worse", 50)]
    assert run.tracker.incidents[0].peak == 0.9


def test_a_new_kind_of_problem_on_an_open_signal_escalates() -> None:
    """An old warning about the spread of rewards must not mute their collapse."""
    run = Run([RewardHackingDetector(), RewardCollapseDetector(), KLBudgetDetector()])
    wide = run.alert("W", 3.0, "reward_hacking", "reward_std")
    far = {"kl": 2.0}  # or the spread would be taken for learning that takes off
    for _ in range(5):
        run.say({"reward_std": 0.1, "reward": 0.5, **far})
    run.say({"reward_std": 3.0, "reward": 0.5, **far}, wide)
    low = run.alert("W", 0.1, "reward_collapse", "reward", "lower")
    run.say({"reward_std": 3.0, "reward": 0.1}, low)
    opened, escalated = run.events()
    assert (escalated.event, escalated.reason) == ("escalated", "new_kind")
    assert (escalated.metric, escalated.worse, escalated.peak) == ("reward", "lower", 0.1)
    assert (escalated.detector, escalated.id) == ("reward_collapse", opened.id)
    run.say({"reward_std": 3.0, "reward": 0.1}, low)
    assert len(run.events()) == 2


def test_several_detectors_of_one_explosion_notify_once() -> None:
    """They watch the same metric in the same direction, and raise alerts within a few rows."""
    run = Run()
    run.log(0.3, "C")
    run.say({"kl": 0.4}, run.alert("C", 0.4, "kl_budget"))
    assert run.take() == [("opened", "decisive", 0)]
    assert run.tracker.incidents[0].detectors == ["kl_explosion", "kl_budget"]


def test_all_kinds_must_be_back_for_a_recovery() -> None:
    """KL to the old policy is normal again; KL to the reference is not."""
    run = Run([TrustRegionDetector(), KLBudgetDetector()])
    run.log(times=50, kl_old=0.01)
    run.say({"kl": NORMAL, "kl_old": 1.0}, run.alert("C", 1.0, "trust_region", "kl_old"))
    run.say({"kl": HIGH, "kl_old": 0.01}, run.alert("C", HIGH, "kl_budget"))
    run.log(HIGH, times=20, kl_old=0.01)
    assert [event[0] for event in run.take()] == ["opened", "escalated", "settled"]


def test_an_incident_about_a_nan_ends_when_it_is_quiet() -> None:
    """There is no level to return to."""
    run = Run([LossNanDetector()])
    for step in range(40):
        alerts = [run.alert("C", math.nan, "loss_nan", "loss")] if step == 10 else []
        run.say({"loss": math.nan if step == 10 else float(step)}, *alerts)
    assert [event[:2] for event in run.take()] == [
        ("opened", "not_finite"),
        ("resolved", "recovered"),
    ]


def test_a_closed_incident_stays_closed_while_nothing_is_new() -> None:
    """The same metric and direction opens no incident until there were twenty quiet rows."""
    run = Run()
    run.log(times=100)
    run.log(HIGH, "C", times=5)
    run.command("close")
    assert run.take()[-1] == ("resolved", "closed", 105)
    run.log(HIGH, "C", times=100)
    assert run.take() == []
    run.log(times=20)
    run.log(HIGH, "C")
    assert run.take() == [("opened", "decisive", 225)]


@pytest.mark.parametrize(
    ("value", "word"), [(math.nan, "C"), (1.5 * HIGH, "W"), (HIGH, "C")], ids=["nan", "x", "raised"]
)
def test_a_closed_incident_does_not_hide_a_new_problem(value: float, word: str) -> None:
    """A NaN, a higher severity, or 1.5 times worse."""
    run = Run()
    run.log(times=100)
    run.log(HIGH, "W", times=12)
    run.command("close")
    run.take()
    run.log(value, word)
    assert [event[0] for event in run.take()] == ["opened"]


def test_an_accepted_level_is_normal_from_now_on() -> None:
    """Fixed limits open no incident below 1.5 times it, and detectors learn it."""
    budget = KLBudgetDetector(budget_nats=0.3)
    explosion = KLExplosionDetector(confirm_steps=0)
    run = Run([explosion, budget])
    run.log(times=100)
    run.log(HIGH, "C", times=5)
    run.log(HIGH, times=30)
    run.command("accept")
    assert run.take()[-1] == ("resolved", "accepted", 135)
    assert explosion._seen == 30
    for _ in range(30):
        run.say({"kl": HIGH}, run.alert("C", HIGH, "kl_budget"))
    assert run.take() == []
    run.say({"kl": 0.75}, run.alert("C", 0.75, "kl_budget"))
    assert [event[0] for event in run.take()] == ["opened"]


def test_a_command_for_a_resolved_incident_changes_nothing() -> None:
    """It may have recovered while somebody was typing."""
    run = Run()
    run.log(times=100)
    run.log(HIGH, "C")
    run.log(times=20)
    run.take()
    run.command("close")
    assert run.take() == []


def test_the_end_of_the_run_ends_open_incidents() -> None:
    """Unresolved."""
    run = settled()
    run.changes += run.tracker.finish()
    assert run.take() == [("ended", "finished", 124)]
    assert run.tracker.incidents[0].state == "ended"


@over(
    "how, good",
    [
        ("recovered", True),
        ("settled", False),
        ("closed", False),
        ("accepted", True),
        ("superseded", False),
    ],
)
def test_checkpoints_before_recovery_or_acceptance_are_unsafe(how: str, good: bool) -> None:
    """Settled is not safe, and neither is what a person closed while its level is broken."""
    run = settled()
    if how == "recovered":
        run.log(times=130)
    elif how == "superseded":
        run.log(2.0, "C")
        run.log(2.0, times=30)
    elif how != "settled":
        run.command("accept" if how == "accepted" else "close")
    run.log(run.tracker.recent.latest("kl", 10), times=5)
    run.tracker.checkpoints.add(90, "s3://b/90")
    run.tracker.checkpoints.add(run.step, "s3://b/late")
    run.log(times=2)
    run.log(math.nan, "C")
    assert run.events()[-1].checkpoint == ("s3://b/late" if good else "s3://b/90")


KL_AND_UPDATES = (KLExplosionDetector, KLBudgetDetector, TrustRegionDetector)


def two_metrics() -> Run:
    """A run of 40 normal rows with the KL to the reference and that of updates."""
    kinds = [kind() for kind in KL_AND_UPDATES]
    kinds[0].confirm_steps = 5
    run = Run(kinds)
    for _ in range(40):
        run.say({"kl": NORMAL, "kl_old": 0.001})
    return run


def test_checkpoints_at_an_accepted_level_are_good() -> None:
    """A person accepted this level as good; a closed level is not good."""
    for kind, good in (("accept", (120, "s3://in")), ("close", (99, "s3://before"))):
        run = settled()
        run.tracker.checkpoints.add(99, "s3://before")
        run.tracker.checkpoints.add(120, "s3://in")
        run.command(kind)
        run.log(HIGH, times=150)
        run.log(50.0, "C", times=3)
        (incident,) = run.tracker.critical
        assert run.tracker.last_good_checkpoint(incident) == good


def test_a_closed_incident_lasts_until_its_metric_is_back() -> None:
    """Checkpoints saved in between are not good, although nobody is notified."""
    run = Run()
    run.log(times=40)
    run.log(HIGH, "C", times=12)
    run.command("close")
    run.log(HIGH, "C", times=50)
    run.tracker.checkpoints.add(101, "s3://broken")
    run.log(times=40)
    run.tracker.checkpoints.add(141, "s3://good")
    (closed,) = run.tracker.incidents
    assert closed.back is not None
    assert 101 < closed.back <= 120
    run.log(50.0, "C", times=3)
    (incident,) = run.tracker.critical
    assert run.tracker.last_good_checkpoint(incident) == (141, "s3://good")


def test_the_successor_of_a_critical_incident_is_critical() -> None:
    """Otherwise a warning at a worse level would be accepted automatically."""
    run = settled("c")
    run.log(0.8, "w", times=5)
    assert run.take() == [("resolved", "superseded", 129), ("opened", "confirmed", 129)]
    run.log(0.8, times=300)
    assert [(i.state, i.severity) for i in run.tracker.critical] == [("settled", "critical")]


def test_the_successor_of_an_incident_ends_when_both_have_recovered() -> None:
    """Another metric of the signal takes over; the first is as broken as before."""
    run = two_metrics()
    for _ in range(3):
        run.say({"kl": HIGH, "kl_old": 0.001}, run.alert("C", HIGH))
    for _ in range(30):
        run.say({"kl": HIGH, "kl_old": 0.001})
    for _ in range(5):
        run.say({"kl": HIGH, "kl_old": 0.5}, run.alert("w", 0.5, "trust_region", "kl_old"))
    for _ in range(30):
        run.say({"kl": HIGH, "kl_old": 0.001})
    assert run.take()[-1][:2] == ("settled", "settled")
    for _ in range(12):
        run.say({"kl": NORMAL, "kl_old": 0.001})
    assert run.take()[-1][:2] == ("resolved", "recovered")


def test_an_incident_that_became_critical_on_another_metric_recovers_with_it() -> None:
    """And its event is about the metric that is critical."""
    run = two_metrics()
    for _ in range(5):
        run.say({"kl": HIGH, "kl_old": 0.001}, run.alert("w", HIGH))
    updates = run.alert("c", 0.9, "trust_region", "kl_old")
    for _ in range(5):
        run.say({"kl": HIGH, "kl_old": 0.9}, run.alert("w", HIGH), updates)
    escalated = run.events()[-1]
    assert (escalated.event, escalated.reason) == ("escalated", "severity_raised")
    assert (escalated.metric, escalated.peak) == ("kl_old", 0.9)
    for _ in range(30):
        run.say({"kl": NORMAL, "kl_old": 0.9})
    assert run.take()[-1][:2] == ("settled", "settled")


def test_the_accepted_level_is_the_median_not_the_peak() -> None:
    """One spike does not raise the accepted level."""
    run = Run()
    run.log(times=40)
    for level in [1.2] * 8 + [40.0] + [1.2] * 4:
        run.say({"kl": level}, run.alert("C", level, "kl_budget"))
    run.command("accept")
    run.take()
    run.say({"kl": 30.0}, run.alert("C", 30.0, "kl_budget"))
    assert run.take()[-1][:2] == ("opened", "decisive")


@pytest.mark.parametrize(("level", "then"), [(0.1, 0.0), (-1.2, -50.0), (0.1, -0.5)])
def test_a_fall_below_an_accepted_level_is_a_new_problem(level: float, then: float) -> None:
    """Also at 0 and below, where ratios mean nothing."""
    run = Run()
    run.log(0.8, times=40)
    for _ in range(12):
        run.say({"kl": level}, run.alert("C", level, "kl_budget", worse="lower"))
    run.command("accept")
    run.take()
    run.say({"kl": then}, run.alert("C", then, "kl_budget", worse="lower"))
    assert run.take()[-1][:2] == ("opened", "decisive")


def test_a_metric_that_is_logged_rarely_settles_too() -> None:
    """The normal level comes from its values, however many steps are between them."""
    run = Run()
    for step in range(3_000):
        value = NORMAL if step < 2_000 else HIGH
        said = [run.alert("C", value)] if step == 2_000 else []
        run.say({"kl": value, "loss": 1.0} if step % 100 == 0 else {"loss": 1.0}, *said)
    assert run.tracker.incidents[0].state == "open"  # 10 quiet rows of KL are not 20
    for step in range(1_500):
        run.say({"kl": HIGH, "loss": 1.0} if step % 100 == 0 else {"loss": 1.0})
    assert run.take()[-1][:2] == ("settled", "settled")


def test_metrics_that_take_turns_do_not_keep_each_other_from_confirmation() -> None:
    """A row of another metric of the signal is not a quiet row of this one."""
    run = two_metrics()
    for _ in range(4):
        run.say({"kl": HIGH}, run.alert("c", HIGH))
        run.say({"kl_old": 0.001})
    assert run.take() == []
    run.say({"kl": HIGH}, run.alert("c", HIGH))
    assert run.take()[-1][:2] == ("opened", "confirmed")


def test_an_explosion_after_a_nan_escalates() -> None:
    """People know of the NaN, not that KL has exploded since."""
    run = Run()
    run.log(times=40)
    run.log(math.nan, "C")
    run.log(10.0, "C", times=2)
    assert run.take() == [("opened", "not_finite", 40), ("escalated", "far_worse", 41)]
    assert run.tracker.incidents[0].state == "open"


def test_a_lasting_nan_notifies_once_more() -> None:
    """The first message says to check the next rows, and nobody may be there to do so."""
    run = Run()
    run.log(times=40)
    run.log(math.nan, "C", times=40)
    assert run.take() == [("opened", "not_finite", 40), ("escalated", "still_not_finite", 44)]


def test_a_nan_that_comes_and_goes_notifies_once_more() -> None:
    """It need not be in consecutive rows, as long as the incident is open."""
    run = Run()
    run.log(times=40)
    for _ in range(8):
        run.log(math.nan, "C")
        run.log(times=5)
    assert run.take() == [("opened", "not_finite", 40), ("escalated", "still_not_finite", 64)]


def test_a_nan_that_is_gone_after_a_few_rows_notifies_once() -> None:
    """As many rows are needed as for any other incident that one row does not open."""
    run = Run()
    run.log(times=40)
    run.log(math.nan, "C", times=4)
    run.log(times=10)
    assert run.take() == [("opened", "not_finite", 40)]


def test_a_critical_incident_escalates_when_its_metric_stays_nan() -> None:
    """People know that KL is high, not that it is no number any more."""
    run = Run()
    run.log(times=40)
    run.log(HIGH, "C")
    run.log(math.nan, "C", times=30)
    assert run.take()[1:] == [("escalated", "still_not_finite", 45)]


def test_a_nan_that_raises_the_severity_is_not_reported_again_a_row_later() -> None:
    """The message about the severity says that it lasts."""
    run = Run()
    run.log(times=40)
    run.log(HIGH, "w")
    run.log(math.nan, "c", times=30)
    opened, escalated = [change for change in run.changes if isinstance(change, Event)]
    assert run.take() == [("opened", "confirmed", 44), ("escalated", "severity_raised", 45)]
    assert opened.message == escalated.message == "kl is still NaN."


def test_a_nan_that_a_log_fills_forward_is_one_value() -> None:
    """A value that is only repeated says nothing about the rows since."""
    run = Run()
    run.log(times=40)
    run.log(math.nan, "C")
    for _ in range(20):
        run.say({"kl": math.nan}, run.alert("C", math.nan), same_batch=True)
    assert run.take() == [("opened", "not_finite", 40)]


def test_a_settled_level_with_alerts_in_between_is_not_accepted() -> None:
    """200 quiet rows are wanted, and every second one is not."""
    run = settled("w", confirm_steps=5)
    for _ in range(150):
        run.log(HIGH, "w")
        run.log(HIGH)
    assert all(kind == "blip" for kind, *_ in run.take())
    run.log(HIGH, times=199)
    assert run.take()[-1][:2] == ("resolved", "accepted")


def test_closing_a_lost_metric_lasts_until_another_is_lost() -> None:
    """The number of steps without it always grows and is not news."""
    run = Run([MetricLostDetector()])

    def lost(names: str, steps: float) -> Alert:
        numbers = {names: 0.0, "steps": steps, f"{names} rows": steps}
        return made_alert(
            numbers, "warning", 0, "metric_lost", worse="missing", names=(names,), decisive=True
        )

    run.say({}, lost("length", 50.0))
    run.command("close")
    run.take()
    for steps in range(51, 200):
        run.say({}, lost("length", float(steps)))
    assert run.take() == []
    run.say({}, lost("kl, length", 200.0))
    assert run.take()[-1][:2] == ("opened", "decisive")


def test_confirmation_restarts_after_a_close() -> None:
    """One alert of another metric does not open an incident by what was closed."""
    run = two_metrics()
    for _ in range(10):
        run.say({"kl": HIGH, "kl_old": 0.001}, run.alert("w", HIGH))
    run.command("close")
    run.take()
    run.say({"kl": HIGH, "kl_old": 0.2}, run.alert("w", 0.2, "trust_region", "kl_old"))
    assert run.take() == []


def test_a_closed_kind_stays_closed_when_another_opens() -> None:
    """The other metric's incident is about that metric alone."""
    run = two_metrics()
    for _ in range(5):
        run.say({"kl": HIGH, "kl_old": 0.001}, run.alert("w", HIGH))
    run.command("close")
    run.take()
    updates = run.alert("C", 0.9, "trust_region", "kl_old")
    run.say({"kl": HIGH, "kl_old": 0.9}, run.alert("w", HIGH), updates)
    for _ in range(10):
        run.say({"kl": HIGH, "kl_old": 0.001}, run.alert("w", HIGH))
    assert run.take() == [("opened", "decisive", 45)]


def test_a_relapse_is_judged_by_its_worst_row() -> None:
    """Not by the row that confirms it."""
    run = settled("w")
    run.log(1.4, "w", times=4)
    run.log(0.7, "w")
    assert run.take()[-1][:2] == ("opened", "confirmed")


def test_a_negative_kl_is_far_too() -> None:
    """The excuse uses the absolute value of KL."""
    run = Run([KLExplosionDetector(confirm_steps=0), KLBudgetDetector()])
    run.log(times=100, reward=0.1, entropy=1.0)
    run.log(-0.9, times=1, reward=0.1, entropy=1.0)
    for _ in range(5):
        run.say(
            {"kl": -0.9, "reward": 0.1, "entropy": 1.0},
            run.alert("c", -0.9, worse="lower"),
        )
    run.log(-0.9, times=300, reward=0.9, entropy=1.0)
    assert [incident.state for incident in run.tracker.critical] == ["settled"]


def test_an_incident_names_the_one_that_it_follows_by_its_number() -> None:
    """No terminal has shown its id."""
    run = settled()
    run.log(5 * HIGH, "C", times=3)
    opened = next(event for event in run.events() if event.event == "opened")
    assert opened.follows_number == 1
    assert why(opened).endswith(" It follows incident 1.")


def test_a_far_worse_incident_is_reported_with_the_numbers_of_now() -> None:
    """Its alerts may be milder by then; the advice stays that of the severe one."""
    run = Run()
    run.log(HIGH, "C")
    run.log(HIGH, "w", times=5)
    run.log(12 * HIGH, "w")
    far_worse = [c for c in run.changes if isinstance(c, Event)][-1]
    assert (far_worse.reason, far_worse.severity) == ("far_worse", "critical")
    assert far_worse.message == "KL 6 is far above its recent values."
    assert far_worse.recommendation == KLExplosionDetector.recommendations["critical"]
