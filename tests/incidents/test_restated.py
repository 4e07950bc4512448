"""The σ of an incident is counted from before it began, not from a baseline that contains it."""

from __future__ import annotations

import math
import random
import re
from itertools import chain

import pytest

from klarm.detectors import GradientNormSpikeDetector, KLExplosionDetector, KLRunawayDetector
from klarm.incidents.recent_rows import RecentRows
from klarm.incidents.restated import message_of, restated
from klarm.journal.file import MemoryJournal
from klarm.monitor.monitor import Monitor
from klarm.types import Alert, Event, Incident, Severity
from klarm.wording import event_text, headline
from made_alerts import made_alert

LEVEL, NOISE, BEGAN = 0.02, 0.002, 150


def quiet(steps: int = BEGAN) -> list[float]:
    rng = random.Random(1)
    return [rng.gauss(LEVEL, NOISE) for _ in range(steps)]


def watched(
    values: list[float], confirm_steps: int = 5, key: str = "kl"
) -> tuple[list[Event], list[Alert]]:
    """Return the events and the alerts of the rule on these values."""
    journal = MemoryJournal()
    rule = KLExplosionDetector(confirm_steps=confirm_steps, excusable=False)
    monitor = Monitor("a", [rule, GradientNormSpikeDetector()], journal)
    alerts = list(chain(*(monitor.log({key: value}, step) for step, value in enumerate(values))))
    monitor.finish()
    return [record for record in journal.records if isinstance(record, Event)], alerts


def sigmas(text: str) -> float:
    (found,) = re.findall(r"is ([\d.]+)σ above", text)
    return float(found)


def test_the_headline_counts_from_the_baseline_before_the_onset() -> None:
    """At the 50th alert in a row, the rolling baseline is half explosion: it says 4σ of 500."""
    rise = [LEVEL * math.exp((row + 1) / 10) for row in range(55)]
    events, alerts = watched(quiet() + rise, confirm_steps=50)
    opened = events[0]
    last = next(alert for alert in alerts if alert.step == opened.step)
    assert float(last.metrics["z_score"]) < 10  # as specified, and so it stays
    value = float(last.metrics["kl"])
    expected = (value - LEVEL) / NOISE
    assert sigmas(opened.message) == pytest.approx(expected, rel=0.3)
    assert "(0.01" in opened.message or "(0.02" in opened.message
    assert f"before step {opened.onset} " in opened.message


def test_a_nan_after_a_spike_is_no_number_of_sigmas() -> None:
    """The incident began with the spike; NaN has no distance from the level before it."""
    events, _ = watched([*quiet(90), LEVEL + 4 * NOISE, *[math.nan] * 10], key="grad_norm")
    assert [event.message for event in events if event.event in ("opened", "escalated")] == [
        "grad_norm is still NaN.",
        "grad_norm is still NaN.",
    ]


def test_every_later_event_says_the_same() -> None:
    """Escalated, settled, ended: each has the σ from before the onset, or none."""
    rise = [LEVEL * 1.3 ** (row + 1) for row in range(40)]
    events, _ = watched(quiet() + rise)
    kinds = [event.event for event in events]
    assert kinds[0] == "opened"
    assert {"escalated", "ended"} <= set(kinds)
    for event in events:
        assert "rolling" not in event.message, event
        assert "rolling" not in event_text(event)
        assert "rolling" not in headline(event)
    escalated = [event for event in events if event.event == "escalated"]
    assert sigmas(escalated[-1].message) > 100


def test_the_first_alert_speaks_for_itself() -> None:
    """With an incident at its first alert, nothing of it is in the baseline yet."""
    events, alerts = watched([*quiet(), 1.0], confirm_steps=1)
    assert events[0].message == alerts[0].message
    assert " above its rolling baseline of 0.0" in events[0].message


def test_the_alerts_are_as_specified() -> None:
    """Those that `log` returns keep the arithmetic of the rule."""
    _, alerts = watched(quiet() + [1.0] * 10)
    assert len(alerts) == 10
    for alert in alerts:
        assert re.search(r"σ above its rolling baseline of \S+ ± \S+ \(", alert.message)


def test_no_sigma_is_given_if_nothing_is_known_from_before() -> None:
    """As when the rows from before the onset are no longer kept."""
    rule, recent, values = KLExplosionDetector(), RecentRows(), [*quiet(), 1.0, 2.0]
    for step, value in enumerate(values):
        alert = rule.update(step, {"kl": value})
        if step >= BEGAN - 5:
            recent.add(step, {"kl": value})
    assert alert is not None
    assert "σ" in alert.message
    said = restated(alert, rule, recent, onset=BEGAN).message
    assert said == "KL 2 is far above its recent values."


def test_a_frozen_baseline_contains_nothing_of_the_incident() -> None:
    """It speaks for itself, however late."""
    rise = [LEVEL * 10.0] * 30
    events, _ = watched(quiet() + rise, key="grad_norm")
    assert " above the baseline of its first 100 values, 0.0" in events[0].message


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_no_trend_predicts_an_explosion_that_it_has_learnt(sign: float) -> None:
    """The first event says what the trend predicts, later ones what KL was before."""
    rise = [LEVEL * 1.1 ** (row + 1) for row in range(110)]
    journal = MemoryJournal()
    monitor = Monitor("a", [KLRunawayDetector()], journal)
    for step, value in enumerate(quiet() + rise):
        monitor.log({"kl": sign * value}, step)
    monitor.finish()
    opened, *later = (record for record in journal.records if isinstance(record, Event))
    assert re.search(r"its trend predicted ±?0\.02", opened.message)
    assert [event.event for event in later][-1] == "ended"
    assert {"escalated"} <= {event.event for event in later}
    (last,) = {event.message for event in later[-2:]}
    level = "0.0" if sign > 0 else "-0.0"
    assert re.search(rf"^KL is -?[\d.]+; just before step 1\d\d it was {level}", last)
    for event in later:
        found = re.search(r"predicted ±?([\d.]+)\.", event.message)
        assert found is None or float(found[1]) <= 2 * LEVEL


def test_a_trend_of_long_ago_is_not_quoted() -> None:
    """The rows from before the onset are no longer kept."""
    rule, recent = KLRunawayDetector(), RecentRows()
    alert = None
    for step in range(800):
        value = 0.02 + 0.001 * (step % 3) if step < 200 else 0.02 * 1.02 ** (step - 200)
        found = rule.update(step, {"kl": value})
        alert = found if found is not None and "predicted" in found.message else alert
        recent.add(step, {"kl": value})
    assert alert is not None
    said = restated(alert, rule, recent, onset=200).message
    assert said.endswith("; it has been far from its earlier level since step 200.")


@pytest.mark.parametrize(("severity", "ends"), [("warning", "± 0.11."), ("critical", "4.5σ).")])
def test_a_warning_does_not_name_the_limit_of_a_critical_alert(
    severity: Severity, ends: str
) -> None:
    """The alert is critical, and the incident may become so."""
    numbers = {"grad_norm": 1.05, "z_score": 4.9, "baseline_mean": 0.51, "spread": 0.11}
    alert = made_alert(
        {**numbers, "threshold": 4.5}, detector="gradient_norm_spike", case="rolling"
    )
    incident = Incident(
        "gradient", "grad_norm", 3, "open", severity, [], 1, 3, alert, 1.05, "higher"
    )
    assert message_of(incident).endswith(ends)
