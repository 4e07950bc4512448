"""The diagnosis that people read, on recorded runs and on failures made for it.

Covers diagnosis.py and dates.py.
"""

from __future__ import annotations

import math
import random
import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence

import pytest

from klarm.cli.demo import read_recording
from klarm.detectors import CATALOGUE, Detector
from klarm.incidents import event_text
from klarm.journal.file import MemoryJournal
from klarm.monitor.monitor import Monitor
from klarm.types import Event

Row = dict[str, float]


def notified(
    rows: Iterable[Mapping[str, float]], detectors: Sequence[Detector] = ()
) -> list[Event]:
    """Run all detectors over these rows; return the events that open or escalate incidents."""
    journal = MemoryJournal()
    watched = Monitor("a", detectors or [kind() for kind in CATALOGUE], journal)
    for step, row in enumerate(rows):
        watched.log(row, step=row.get("step", step))
    return [
        r for r in journal.records if isinstance(r, Event) and r.event in ("opened", "escalated")
    ]


def patterns(rows: Iterable[Mapping[str, float]]) -> list[tuple[str, int, str]]:
    return [(event.signal, event.step, event.pattern) for event in notified(rows)]


def run(change: Callable[[Row, int], object], steps: int = 320) -> list[Row]:
    """Return a healthy run, except for what `change` does to each row, given its step."""
    rng = random.Random(0)
    rows = []
    for step in range(steps):
        row = {
            "kl": 0.02 * (1 + step / 200) * rng.lognormvariate(0, 0.1),
            "entropy": 0.6 * rng.lognormvariate(0, 0.05),
            "reward": 0.3 + rng.gauss(0, 0.03),
            "reward_std": 0.3 * rng.lognormvariate(0, 0.1),
            "grad_norm": 0.5 * rng.lognormvariate(0, 0.15),
            "loss": rng.gauss(0, 0.02),
            "length": 200 * rng.lognormvariate(0, 0.05),
            "learning_rate": 1e-6,
        }
        change(row, step)
        rows.append(row)
    return rows


def test_the_healthy_recording_has_nothing_to_explain() -> None:
    """There is no incident."""
    assert notified(read_recording("healthy")) == []


def test_the_recorded_explosion_is_explained_by_its_learning_rate() -> None:
    """Which was multiplied by a hundred after step 150."""
    events = notified(read_recording("exploding"))
    assert [(event.signal, event.pattern) for event in events] == [
        ("gradient", ""),  # nothing has followed yet: KL moved before
        ("kl", "learning rate raised"),
        ("kl", "learning rate raised"),  # critical a step later
        ("gradient", "learning rate raised"),  # critical: entropy has halved
        ("entropy", "learning rate raised"),
        ("reward", "learning rate raised"),
        ("advantage", "learning rate raised"),
    ]
    assert events[1].moved.startswith(
        "learning_rate ×100 from 152, then loss ×4 from 153, then entropy "
    )
    assert "grad_norm ×5.2 from 158, now ×0.56" in events[4].moved


def test_the_recorded_drift_is_never_called_healthy() -> None:
    """It had hardly any KL penalty, and the reward was gamed."""
    assert patterns(read_recording("drifting")) == [
        ("gradient", 162, "reward bought with KL"),
        ("kl", 167, "reward bought with KL"),
        ("gradient", 168, "reward bought with KL"),
        ("kl", 176, "gradients first"),  # critical
        ("entropy", 225, "reward hacking"),
        ("kl", 226, "reward hacking"),  # it is five times what it was at 176
        ("reward", 250, "reward hacking"),
        ("entropy", 314, ""),
        ("kl", 367, "KL far ahead of the reward"),  # and five times that
    ]


def test_a_learning_rate_that_jumps() -> None:
    """It explains everything that follows."""

    def change(row: Row, step: int) -> None:
        if step >= 200:
            growth = 1.15 ** min(step - 200, 40)
            row["learning_rate"] *= 10
            row["kl"] *= growth
            row["grad_norm"] *= min(growth, 8)
            row["reward"] -= min(0.25, max(0, step - 215) * 0.01)

    events = notified(run(change, 260))
    assert {event.signal for event in events} == {"kl", "gradient", "reward"}
    # At first nothing else has moved, and the detector's own advice is the one to give.
    assert (events[0].signal, events[0].step, events[0].pattern) == ("gradient", 200, "")
    assert events[0].moved == ""
    assert all(
        "learning_rate ×10 from 200" in event.moved for event in events if event.signal == "kl"
    )
    assert {event.pattern for event in events[1:]} == {"learning rate raised"}


def test_reward_hacking_that_shows_in_kl_first() -> None:
    """Until the reward rises as well, KL is said to be ahead of it."""

    def change(row: Row, step: int) -> None:
        row["kl"] *= 2  # no longer next to nothing
        if step >= 200:
            row["kl"] *= 1.08 ** min(step - 200, 50)
            row["reward"] += min(0.6, max(0, step - 215) * 0.02)
            row["entropy"] *= max(0.1, 0.95 ** max(0, step - 225))

    first, *later = notified(run(change, 280))
    assert (first.signal, first.severity) == ("kl", "warning")
    assert first.pattern == "KL ahead of the reward"
    assert later[0].severity == "critical"
    assert {event.pattern for event in later[1:]} == {"reward hacking"}


def test_an_entropy_that_collapses_alone() -> None:
    """Its peak is the lowest value; once it is flat, there is nothing left to explain."""

    def change(row: Row, step: int) -> None:
        if step >= 200:
            row["entropy"] *= 0.94 ** min(step - 200, 80)

    opened, *_, escalated = notified(run(change))
    assert (opened.signal, opened.pattern) == ("entropy", "narrowing")
    assert opened.moved == ""
    assert opened.onset == 202
    assert opened.message == (
        "Entropy has fallen by 85%, from 0.643 at step 183 to 0.0988 "
        "(medians of 5 values; warning at 80%)."
    )
    assert (escalated.event, escalated.severity) == ("escalated", "critical")
    assert isinstance(escalated.peak, float)
    assert escalated.peak < 0.005


def test_completions_that_grow_without_reward() -> None:
    """If the reward rises as well, it pays for length."""

    def grow(row: Row, step: int) -> None:
        row["length"] *= 1 + 0.06 * max(0, step - 200)

    def paid(row: Row, step: int) -> None:
        grow(row, step)
        row["reward"] += min(0.5, 0.01 * max(0, step - 200))

    assert patterns(run(grow))[0] == ("length", 245, "longer for nothing")
    assert patterns(run(paid)) == [("reward", 249, "length hack")]


@pytest.mark.parametrize("step", [2, 200])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_broken_loss_is_explained_even_at_the_first_steps(step: int, value: float) -> None:
    """However few steps came before."""

    def change(row: Row, at: int) -> None:
        if at == step:
            row["loss"] = value

    (event,) = notified(run(change, step + 20))
    assert (event.signal, event.pattern) == ("loss", "numbers broken")
    assert event.onset == step
    assert "loss" not in event.moved
    assert "float16" in event.recommendation


def test_an_infinite_reward_is_not_explained_by_kl() -> None:
    """Although KL was NaN a few steps before. Each incident has its own advice."""

    def change(row: Row, step: int) -> None:
        if step == 25:
            row["kl"] = math.nan
        if step == 40:
            row["reward"] = math.inf

    kl, reward = notified(run(change, 60))
    assert (kl.pattern, reward.pattern) == ("KL broken", "reward broken")
    assert "log-ratios" in kl.recommendation
    assert "log-ratios" not in reward.recommendation
    assert "reward function" in reward.recommendation


def test_a_slow_drift_is_past_the_optimum_when_the_reward_falls() -> None:
    """The fall is too slow to show in a hundred steps, so the alert is trusted."""

    def change(row: Row, step: int) -> None:
        row["kl"] *= math.exp(step / 120) / (1 + step / 200)
        row["reward"] += 0.3 * min(step / 200, 1) - max(0, step - 250) * 0.001

    *_, last = notified(run(change, 400))
    assert (last.signal, last.pattern) == ("reward", "past the optimum")
    assert "reward flat" not in last.moved
    assert "reward," not in last.moved


def risen_with_kl(seed: int, gain: float) -> list[Row]:
    """Return a run whose KL takes off at step 150 and whose reward gains so much with it.

    The reward also rises by 0.001 per step all the time.
    """
    rng = random.Random(seed)
    return [
        {
            "kl": 0.05 * rng.lognormvariate(0, 0.1) * 1.05 ** max(0, min(step - 150, 60)),
            "reward": 0.3 + 0.001 * step + rng.gauss(0, 0.03) + min(gain, max(0, step - 150) / 100),
            "entropy": 0.6 * rng.lognormvariate(0, 0.05),
        }
        for step in range(240)
    ]


def test_the_cause_does_not_deny_a_rise_of_the_reward_that_delayed_the_incident() -> None:
    """The rise of the reward explained the first alerts; the message must not deny it."""
    journal = MemoryJournal()
    watched = Monitor("a", [kind() for kind in CATALOGUE], journal)
    alerts = []
    for step, row in enumerate(risen_with_kl(seed=2, gain=0.2)):
        alerts += watched.log(row, step=step)
    (opened,) = [r for r in journal.records if isinstance(r, Event) and r.event == "opened"]
    early = [a.step for a in alerts if a.detector == "kl_runaway" and a.step < opened.step]
    assert len(early) > 20  # excused because the reward rose
    assert opened.moved.startswith("reward ×1.6 from 157")
    assert opened.pattern == "KL ahead of the reward"
    assert "  Likely cause: KL has risen faster than the reward" in event_text(opened)
    for words in ("not followed", "does not rise", "for nothing", "flat"):
        assert words not in opened.cause


def test_a_reward_that_rises_slowly_is_not_called_flat() -> None:
    """It has not left its normal range, but everybody sees that it rises."""
    opened = notified(risen_with_kl(seed=0, gain=0.0))[0]
    assert opened.signal == "kl"
    assert opened.moved == "reward up slowly; entropy flat"


@pytest.mark.parametrize("seed", range(20))
def test_an_exponential_kl_is_the_same_whatever_the_noise_of_the_reward(seed: int) -> None:
    """A reward that climbs as before does not pay for it."""
    rng = random.Random(seed)
    rows = [
        {
            "kl": 0.01 * 1.03**step * rng.lognormvariate(0, 0.1),
            "reward": 0.0025 * step + rng.gauss(0, 0.1),
        }
        for step in range(200)
    ]
    events = [event for event in notified(rows) if event.signal == "kl"]
    assert events
    assert {event.pattern for event in events} <= {
        "KL far ahead of the reward",
        "KL ahead of the reward",
    }


@pytest.mark.parametrize("episodes_per_row", [1, 10])
@pytest.mark.parametrize("rows_of_the_fall", [1, 20])
def test_a_mean_over_many_episodes_that_lags_behind_a_collapse(
    episodes_per_row: int, rows_of_the_fall: int
) -> None:
    """The return falls from 139 to 9 while its mean still rises: nobody games a reward there."""
    rng = random.Random(0)
    ended: deque[float] = deque(maxlen=100)
    rows = []
    for step in range(160):
        fallen = min(1.0, max(0, step - 99) / rows_of_the_fall)
        level = (20 + 1.19 * min(step, 100)) * (1 - fallen) + 9 * fallen
        # Episodes are shorter, and so more of them end, once the policy has collapsed.
        for _ in range(max(1, round(episodes_per_row * 139 / max(level, 30.0)))):
            ended.append(max(8.0, rng.gauss(level, level / 4)))
        rows.append(
            {
                "reward": sum(ended) / len(ended),
                "entropy": (0.014 if fallen else 0.69 - 0.002 * step) + rng.gauss(0, 0.002),
                "kl": 0.05 + 0.3 * (step - 99) if fallen else 0.0005 * step,
            }
        )
    events = notified(rows)
    assert events[0].signal == "kl"
    assert {event.pattern for event in events}.isdisjoint(
        {"reward hacking", "reward bought with KL", "take-off"}
    )
    assert "reward_drift" not in {event.detector for event in events}


def test_an_incident_on_reward_says_which_part_of_it_fell() -> None:
    """As TRL logs one mean for each reward function."""
    rng = random.Random(1)
    rows = []
    for step in range(200):
        accuracy = 0.5 + rng.gauss(0.0, 0.02)
        form = (0.4 if step < 120 else 0.0) + rng.gauss(0.0, 0.01)
        parts = {"rewards/accuracy/mean": accuracy, "rewards/format/mean": form}
        rows.append({"reward": accuracy + form, **parts})
    opened = next(event for event in notified(rows) if event.signal == "reward")
    assert opened.moved.startswith("rewards/format/mean ")
    assert "rewards/accuracy/mean" not in opened.moved


def test_what_moved_before_the_cause_is_not_said_to_follow_it() -> None:
    """Completions became longer 50 steps before the learning rate was raised."""

    def change(row: Row, step: int) -> None:
        row["length"] *= 3.0 if step >= 150 else 1.0
        row["learning_rate"] *= 100.0 if step >= 200 else 1.0
        row["kl"] *= 1.3 ** max(0, step - 200)

    opened = next(event for event in notified(run(change, 215)) if event.signal == "kl")
    assert opened.pattern == "learning rate raised"
    assert opened.moved.startswith("learning_rate ×100 from 200; before that, length ×3 from 150; ")


def test_what_moved_before_an_incident_without_a_known_cause_is_said_to_be_earlier() -> None:
    """So that the reader looks there first."""

    def change(row: Row, step: int) -> None:
        row["length"] *= 0.3 if step >= 170 else 1.0
        row["grad_norm"] *= 20.0 if step >= 200 else 1.0

    (opened,) = [e for e in notified(run(change, 210)) if e.event == "opened"][-1:]
    assert (opened.subject, opened.pattern) == ("grad_norm", "")
    assert opened.moved.startswith("length ×0.3 from 170, before the incident; ")


def test_only_what_is_telling_is_called_flat() -> None:
    """A list of eight metrics that did nothing hides the one that did."""

    def change(row: Row, step: int) -> None:
        row["kl"] *= 1.3 ** max(0, step - 200)
        row["length"] *= 3.0 if step >= 205 else 1.0

    opened = next(event for event in notified(run(change, 215)) if event.signal == "kl")
    assert opened.moved == "length ×3 from 205; entropy, reward flat"


def _far_too_large_updates(row: Row, step: int) -> None:
    """The learning rate is raised at step 200; KL grows for long, entropy and length follow."""
    since = max(step - 200, 0)
    row["learning_rate"] = 1e-4 if since else 1e-6
    row["kl"] *= min(1.5**since, 1e4) ** 0.5 if since < 10 else (1.5**5) * 1.2 ** (since - 10)
    row["kl"] = min(row["kl"], 50.0)
    row["entropy"] *= 0.93 ** max(since - 5, 0)
    row["length"] *= 1.04 ** max(since - 5, 0)


def _dates_said(events: Iterable[Event], metric: str) -> list[int]:
    found = [re.search(rf"\b{metric} [^,;]*from (\d+)", event.moved) for event in events]
    return [int(match[1]) for match in found if match]


def test_a_metric_with_an_incident_is_dated_by_it_in_all_messages() -> None:
    """KL moves on for long, and a later diagnosis alone would date it ever later."""
    events = notified(run(_far_too_large_updates))
    kl = [event for event in events if event.signal == "kl"]
    said = _dates_said([event for event in events if event.step > kl[0].step], "kl")
    assert len(said) >= 2
    assert set(said) == {kl[0].onset}


def test_a_movement_is_never_dated_later_while_incidents_are_open() -> None:
    """Not even that of a metric without an incident, such as length without its detector."""
    without = [kind() for kind in CATALOGUE if kind.name != "length_blowup"]
    said = _dates_said(notified(run(_far_too_large_updates), without), "length")
    assert len(said) >= 3
    assert said == sorted(said, reverse=True)


def test_the_level_before_an_incident_is_that_of_the_last_rows_before_its_onset() -> None:
    """KL has risen for long, so that its median over all rows is far below."""

    def climb_and_explode(row: Row, step: int) -> None:
        row["kl"] *= 1.01 ** min(step, 200) * 1.5 ** max(min(step - 200, 15), 0)

    rows = run(climb_and_explode)
    opened, *later = [event for event in notified(rows) if event.signal == "kl"]
    assert opened.onset is not None
    just_before = sorted(row["kl"] for row in rows[opened.onset - 5 : opened.onset])
    assert opened.before == just_before[2]
    assert {event.before for event in later} == {opened.before}


def test_the_advice_stays_when_an_incident_settles_and_when_the_run_ends() -> None:
    """The incident on the learning rate opens without a cause and escalates with one."""
    journal = MemoryJournal()
    watched = Monitor("a", [kind() for kind in CATALOGUE], journal)
    for row in read_recording("exploding"):
        watched.log(row, step=row["step"])
    watched.finish()
    events = [r for r in journal.records if isinstance(r, Event) and r.incident == 1]
    assert [event.event for event in events] == ["opened", "escalated", "settled", "ended"]
    assert len({(event.cause, event.remedy) for event in events[1:]}) == 1
    assert events[-1].remedy.startswith("Go back to a checkpoint from before the change")
