"""The budget: levels, signs, the first steps, and keys to which it does not apply."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

import klarm
from fed_detectors import severities
from klarm.analysis.replay import replay
from klarm.cli.demo import read_recording
from klarm.config.layers import Config, load
from klarm.detectors import (
    Detector,
    KLBudgetDetector,
    RolloutMismatchDetector,
    TrustRegionDetector,
)
from klarm.journal.file import MemoryJournal, read_journal
from klarm.journal.records import Bound
from klarm.metrics.catalogue import METRICS
from klarm.metrics.kl_kind import Kind
from klarm.monitor.coverage import watched_lines
from klarm.monitor.missing import hints
from klarm.monitor.monitor import Monitor
from klarm.sources import read_log
from klarm.types import Alert
from recorded_lines import lines_of

SUM = "objective/kl"
JOURNAL = Path("klarm_runs/a/journal.jsonl")


def feed(values: list[float], **settings: float) -> list[Alert | None]:
    detector = KLBudgetDetector(**settings)  # type: ignore[arg-type]
    return [detector.update(step, {"kl": value}) for step, value in enumerate(values)]


def as_recorded(recorded: Mapping[str, object] | None) -> Config:
    return load(recorded=recorded or {})


def test_an_exponential_rise_raises_alerts_when_its_median_exceeds_one_nat_and_two() -> None:
    """KL doubles every five steps from 0.01: a warning at step 36, critical at 41."""
    alerts = feed([0.01 * 2 ** (step / 5) for step in range(44)])
    assert severities(alerts) == {
        **dict.fromkeys(range(36, 41), "warning"),
        **dict.fromkeys(range(41, 44), "critical"),
    }
    # Five in a row are no burst of spikes.
    assert [alert.decisive for alert in alerts if alert] == [False, False, *[True] * 6]
    assert alerts[36] is not None
    assert alerts[36].message == (
        "KL is 1.11 nats (median of the last 5 rows), above its budget (warning above 1)."
    )


def test_half_of_the_last_ten_beyond_the_budget_raise_an_alert_without_their_median() -> None:
    """KL is beyond it at every other step, so the median of five alternates."""
    alerts = feed([0.1] * 20 + [4.0, 0.2] * 10)
    assert severities(alerts) == dict.fromkeys([24, 26, *range(28, 40)], "critical")
    # Between the high ones it is far below: these may be spikes, and have to be confirmed.
    assert not any(alert.decisive for alert in alerts if alert)
    assert alerts[29] is not None
    assert alerts[29].message == (
        "KL was at least 4 nats in 5 of the last 10 rows, above its budget (critical above 2)."
    )


def test_half_beyond_the_budget_and_the_others_near_it_are_not_spikes() -> None:
    """A noisy level at the budget is decisive, although no five in a row are beyond it."""
    alerts = feed([0.3] * 20 + [1.5, 0.9] * 10)
    assert min(step for step, alert in enumerate(alerts) if alert and alert.decisive) == 28


def test_an_explosion_by_step_three_raises_an_alert_at_the_third_value() -> None:
    """And as long as it stays there, even if flat."""
    assert severities(feed([0.0, 5.0, 9.0, *[9.4] * 50])) == dict.fromkeys(range(2, 53), "critical")


def test_a_signed_estimate_far_below_zero_raises_an_alert_too() -> None:
    """At minus the budget, and at minus twice it."""
    alerts = feed([-1.5] * 3 + [-2.5] * 5)
    assert severities(alerts) == {
        2: "warning",
        **dict.fromkeys(range(3, 5), "warning"),
    } | dict.fromkeys(range(5, 8), "critical")
    assert alerts[2] is not None
    assert "below its budget (warning below -1)" in alerts[2].message


def test_two_overflows_in_five_values_raise_no_alert() -> None:
    """The k3 estimator overflows sometimes, which is harmless."""
    assert not any(feed([0.05, 0.05, 0.05, 4e9, 0.05, 0.05, 4e9, 0.05, 0.05]))


def test_the_healthy_recording_raises_no_alert() -> None:
    """A real GRPO run that learns."""
    assert not any(feed([row["kl"] for row in read_recording("healthy")]))


def test_the_recorded_explosion_raises_an_alert_at_step_170() -> None:
    """A real GRPO run whose learning rate jumped at step 150."""
    alerts = feed([row["kl"] for row in read_recording("exploding")])
    assert min(severities(alerts)) + 1 == 170


@pytest.mark.parametrize("key", [SUM, f"train/{SUM}"])
def test_it_is_idle_where_kl_is_a_sum_over_the_sequence(key: str) -> None:
    """It says so, with what to do; other detectors of KL are active."""
    monitor = Monitor("a", [KLBudgetDetector()])
    assert not any(monitor.log({key: 12.0}, step) for step in range(10))
    (hint,) = hints(monitor.detectors, monitor.binding)
    assert hint == (
        f"kl_budget is idle: {key} is summed over the sequence, where a limit of 1 nat means "
        "nothing; set kl_budget.budget_nats to watch it"
    )


def test_a_budget_that_the_user_set_applies_to_sums_too() -> None:
    """A user who sets it knows what is summed."""
    monitor = Monitor("a", [KLBudgetDetector(budget_nats=40.0)])
    alerts = [monitor.log({SUM: 50.0}, step) for step in range(3)]
    assert [len(said) for said in alerts] == [0, 0, 1]
    (line,) = watched_lines(monitor.detectors, monitor.binding)
    assert line == f"kl ← {SUM} (reference, summed over the sequence): kl_budget"


def test_the_journal_records_the_key_so_a_replay_is_idle_too() -> None:
    """Although the steps of the journal call it kl."""
    klarm.init("a", console=False)
    live = [alert for step in range(30) for alert in klarm.log({SUM: 12.0 + step % 2}, step)]
    klarm.finish()
    lines = lines_of("a")
    assert [line["type"] for line in lines[:3]] == ["run", "binding", "step"]
    assert lines[1]["keys"] == {"kl": SUM}
    found = replay(read_log(JOURNAL, print), as_recorded)
    assert live == found.alerts == []
    assert "summed over the sequence" in found.idle["kl_budget"]


def test_a_key_that_is_the_metrics_own_name_is_not_recorded() -> None:
    """The line is only for keys that differ from the name."""
    journal = MemoryJournal()
    Monitor("a", [KLBudgetDetector()], journal).log({"kl": 0.1, "loss": 1.0}, 0)
    assert not any(isinstance(record, Bound) for record in journal.records)


def test_a_resumed_run_knows_the_key_before_it_is_logged_again() -> None:
    """The baseline is rebuilt from steps that call it kl, and the first new step has none."""
    klarm.init("a", console=False)
    for step in range(10):
        klarm.log({SUM: 12.0}, step)
    watched = klarm.init("a", console=False)
    klarm.log({"loss": 0.5}, 10)
    assert watched.incidents == []
    for step in range(11, 20):
        assert klarm.log({SUM: 12.0}, step) == []
    bindings = [record.keys for record in read_journal(JOURNAL) if isinstance(record, Bound)]
    assert bindings == [{"kl": SUM}]  # said once: it has not changed


def test_a_run_that_continues_with_another_key_is_watched_again() -> None:
    """And a replay of both parts says the same as the run."""
    klarm.init("a", console=False)
    for step in range(10):
        klarm.log({SUM: 12.0}, step)
    klarm.init("a", console=False)
    live = [alert for step in range(10, 20) for alert in klarm.log({"kl": 1.5}, step)]
    klarm.finish()
    assert {alert.detector for alert in live} == {"kl_budget"}
    bindings = [record.keys for record in read_journal(JOURNAL) if isinstance(record, Bound)]
    assert bindings == [{"kl": SUM}, {"kl": "kl"}]
    found = replay(read_log(JOURNAL, print), as_recorded)
    assert found.alerts == live


def test_a_sum_declared_by_the_user_makes_it_idle_live_and_in_a_replay() -> None:
    """The journal's settings hold what was said, its `binding` line what came of it."""
    said = {"kl": {"key": "my/kl", "kind": "reference_k1_sum"}}
    klarm.init("a", console=False, metrics=said)
    assert not any(klarm.log({"my/kl": 12.0 + step % 2}, step) for step in range(30))
    klarm.finish()
    lines = lines_of("a")
    assert lines[0]["config"]["metrics"] == said
    assert lines[1] == {
        "type": "binding",
        "keys": {"kl": "my/kl"},
        "kinds": {"kl": {"target": "reference", "estimator": "k1", "per": "sequence"}},
        "crc": "7abc9900",
    }
    assert lines[2]["metrics"] == {"kl": 12.0}
    found = replay(read_log(JOURNAL, print), as_recorded)
    assert found.idle["kl_budget"].startswith("idle: my/kl is summed over the sequence")


def test_it_is_idle_where_the_budget_is_beyond_the_clamp() -> None:
    """A mean over tokens of which none is above 10 is not above 10 either."""
    detector = KLBudgetDetector(budget_nats=10.0)
    detector.bound("train/kl", Kind("reference", clamped=True))
    assert detector.idle_because == (
        "train/kl is clamped within ±10, so it never exceeds 10; "
        "set a lower kl_budget.budget_nats to watch it"
    )
    detector = KLBudgetDetector(budget_nats=9.0)
    detector.bound("train/kl", Kind("reference", clamped=True))
    assert detector.idle_because == ""


@pytest.mark.parametrize(
    ("kind", "metric"),
    [
        (KLBudgetDetector, "kl"),
        (TrustRegionDetector, "kl_old"),
        (RolloutMismatchDetector, "kl_rollout"),
    ],
)
def test_no_limit_in_nats_per_token_applies_to_a_sum(kind: type[Detector], metric: str) -> None:
    """Nor to the KL to another policy."""
    detector = kind()
    target = METRICS[metric].target
    assert target is not None
    detector.bound("my/kl", Kind(target, "k1", "sequence"))
    assert "my/kl is summed over the sequence" in detector.idle_because
    detector.bound("my/kl", Kind(target, "k1"))
    assert detector.idle_because == ""
    others = METRICS.keys() - {metric}
    assert not any(detector.update(step, dict.fromkeys(others, 50.0)) for step in range(50))
