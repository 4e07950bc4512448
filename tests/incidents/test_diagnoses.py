"""The diagnosis that people read, on recorded runs and on failures made for it.

Covers diagnosis.py and dates.py.
"""

from __future__ import annotations

import math
import random
import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median

import pytest

import klarm
from cases import over
from klarm.channels.message import Context, message_of
from klarm.cli.demo import read_recording
from klarm.detectors import CATALOGUE, Detector, EntropyCollapseDetector
from klarm.incidents.dates import Dates, Own, Said
from klarm.incidents.movement import Movement
from klarm.incidents.recent_rows import RecentRows
from klarm.incidents.trends import level_before
from klarm.journal import read_journal
from klarm.journal.file import MemoryJournal
from klarm.monitor.monitor import Monitor
from klarm.types import Event
from klarm.wording import advice, event_text
from moved_line import date_of, dates_of

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
        "learning_rate ×100 since step 152, then entropy ×0.55, reward "
    )
    assert "grad_norm ×4.9 (now ×0.54) since step 158" in events[4].moved


def test_the_recorded_drift_is_never_called_healthy() -> None:
    """It had hardly any KL penalty, and the reward was gamed."""
    assert patterns(read_recording("drifting")) == [
        ("gradient", 162, "reward bought with KL"),
        ("kl", 167, "reward bought with KL"),
        ("gradient", 168, "reward bought with KL"),
        ("kl", 176, "reward bought with KL"),  # critical
        ("entropy", 225, "reward hacking"),
        ("kl", 226, "reward hacking"),  # it is five times what it was at 176
        ("reward", 250, "reward hacking"),
        ("entropy", 314, "reward hacking"),  # nothing has moved since, and nothing came back
        ("kl", 367, "reward hacking"),  # and five times that
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
        "learning_rate ×10 since step 200" in event.moved
        for event in events
        if event.signal == "kl"
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
        "Entropy is 0.0988, 85% below its recent high, 0.643 at step 183 (medians of 5 values; "
        "warning at 80%)."
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


@pytest.mark.parametrize("metric", ["kl", "loss", "reward", "entropy"])
def test_a_single_nan_is_no_reason_to_stop_at_once(metric: str) -> None:
    """The message says "if it stays so", so the advice is to look whether it does."""

    def change(row: Row, step: int) -> None:
        if step == 100:
            row[metric] = math.nan

    (opened,) = notified(run(change, 140))
    assert opened.severity == "critical"
    (to_do,) = advice(opened)
    assert to_do.startswith("Check the next rows. If ")
    assert ", stop" in to_do


@pytest.mark.parametrize("metric", ["kl", "reward"])
def test_a_nan_beside_another_is_a_reason_to_stop_or_go_back(metric: str) -> None:
    """The loss or the gradient norm is broken already, so there is nothing to wait for."""

    def change(row: Row, step: int) -> None:
        if step == 100:
            row[metric] = row["grad_norm"] = math.nan

    (opened,) = notified(run(change, 140))
    assert advice(opened)[0].startswith(("Stop", "Go back"))


@pytest.mark.parametrize(("rows", "first"), [(1, "Evaluate "), (9, "Do not use ")])
def test_the_end_of_a_run_advises_by_how_often_kl_was_nan(rows: int, first: str) -> None:
    """The advice of the first value is out of date if others followed."""

    def change(row: Row, step: int) -> None:
        if 100 <= step < 100 + rows:
            row["kl"] = math.nan

    journal = MemoryJournal()
    watched = Monitor("a", [kind() for kind in CATALOGUE], journal)
    for step, row in enumerate(run(change, 110)):
        watched.log(row, step)
    watched.finish()
    opened, *_, ended = (record for record in journal.records if isinstance(record, Event))
    assert (opened.event, ended.event) == ("opened", "ended")
    assert advice(opened)[0].startswith("Check the next rows")
    assert advice(ended)[0].startswith(first)


def test_a_slow_drift_is_past_the_optimum_when_the_reward_falls() -> None:
    """The fall is too slow to show in a hundred steps, so the alert is trusted."""

    def change(row: Row, step: int) -> None:
        row["kl"] *= math.exp(step / 120) / (1 + step / 200)
        row["reward"] += 0.3 * min(step / 200, 1) - max(0, step - 250) * 0.001

    *_, last = notified(run(change, 400))
    assert (last.signal, last.pattern) == ("reward", "past the optimum")
    assert "reward flat" not in last.moved
    assert "reward," not in last.moved


@pytest.mark.parametrize(("rows", "pattern"), [(1, ""), (60, "past the optimum")])
def test_a_sudden_fall_of_the_reward_is_not_explained_by_a_kl_that_grows_as_before(
    rows: int, pattern: str
) -> None:
    """A reward function that broke looks like this; a lower learning rate does not repair it."""

    def change(row: Row, step: int) -> None:
        row["kl"] *= 1 + (step / 50) ** 2
        row["reward"] -= 0.9 * min(max(step - 149, 0) / rows, 1.0)

    opened = next(event for event in notified(run(change, 300)) if event.signal == "reward")
    assert opened.pattern == pattern
    assert "kl" not in opened.moved


def test_the_advice_after_the_run_counts_from_the_onset() -> None:
    """Checkpoints saved between the onset and the first alert are not good, either."""

    def change(row: Row, step: int) -> None:
        row["kl"] *= 1 + (step / 50) ** 2
        row["reward"] -= 0.9 if step >= 150 else 0.0

    journal = MemoryJournal()
    watched = Monitor("a", [kind() for kind in CATALOGUE], journal)
    for step, row in enumerate(run(change, 200)):
        watched.log(row, step)
    watched.finish()
    events = [record for record in journal.records if isinstance(record, Event)]
    opened, ended = (next(e for e in events if e.event == kind) for kind in ("opened", "ended"))
    assert opened.onset == ended.onset == 150
    assert opened.started > 155
    assert "saved since step 150" in advice(ended)[0]


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
    assert opened.moved.startswith("reward ×1.6 since step 150")
    assert opened.pattern == "KL runs away from the reward"
    cause = "KL rises much faster than the reward"
    assert f"  Likely cause: {cause}" in event_text(opened)
    for words in ("not followed", "does not rise", "for nothing", "flat"):
        assert words not in opened.cause


def test_a_reward_that_rises_slowly_is_not_called_flat() -> None:
    """It has not left its normal range, but everybody sees that it rises."""
    opened = notified(risen_with_kl(seed=0, gain=0.0))[0]
    assert opened.signal == "kl"
    assert opened.moved == "nothing new (reward keeps rising as before; no clear change: entropy)"


def test_a_reward_that_falls_since_kl_took_off_is_not_called_rising() -> None:
    """It is still above its earlier level when KL opens the incident."""
    rng = random.Random(0)
    rows = [
        {
            "kl": 0.02 * rng.lognormvariate(0, 0.1) * 1.15 ** max(0, step - 179),
            "reward": 0.4 + 0.001 * step + rng.gauss(0, 0.02) - 0.004 * max(0, step - 179),
            "entropy": 1.2 * rng.lognormvariate(0, 0.03),
        }
        for step in range(200)
    ]
    opened = notified(rows)[0]
    assert opened.signal == "kl"
    assert "rising" not in opened.moved
    assert re.match(
        r"reward up \d+% over the last 100 rows;",
        opened.moved,
    )


def test_the_lowest_value_of_an_opening_counts_from_the_onset() -> None:
    """The message dates the fall from the onset; a lower row than that of the alert is in it."""
    rng = random.Random(3)
    rows = [
        {"reward": 0.5 + rng.gauss(0, 0.03) - min(0.4, 0.003 * max(0, step - 150))}
        for step in range(350)
    ]
    opened = notified(rows)[0]
    assert opened.signal == "reward"
    assert opened.onset is not None
    assert opened.onset < opened.started
    since_onset = [row["reward"] for row in rows[opened.onset : opened.step + 1]]
    assert min(since_onset) < min(row["reward"] for row in rows[opened.started : opened.step + 1])
    assert opened.peak == min(since_onset)


def test_an_entropy_that_falls_by_a_fifth_is_not_called_flat() -> None:
    """It is within a quarter of its normal level, but everybody sees that it falls."""

    def change(row: Row, step: int) -> None:
        row["kl"] *= 1.3 ** max(0, step - 200)
        row["entropy"] *= 1.0 - 0.05 * min(max(0, step - 200), 4)
        row["length"] *= 3.0 if step >= 205 else 1.0

    opened = next(event for event in notified(run(change, 215)) if event.signal == "kl")
    assert re.fullmatch(
        r"length ×2.9 since step 205; entropy down (1|2)\d% over the last 100 rows; "
        r"no clear change: reward",
        opened.moved,
    )


def test_a_reward_that_has_just_jumped_is_neither_slow_nor_missing() -> None:
    """It is five times as high within five rows, too few for a median of ten to show."""

    def change(row: Row, step: int) -> None:
        if step > 200:
            row["kl"] = 0.1 + 0.35 * min(step - 200, 6)
            row["reward"] += 0.2 * min(step - 200, 6)
            row["entropy"] *= max(0.2, 0.85 ** (step - 200))

    first = next(e for e in notified(run(change, 230)) if e.signal == "kl")
    assert first.step <= 206
    assert "slowly" not in first.moved
    assert re.search(r"reward ×[3-5][.\d]* ", first.moved)
    assert date_of("reward", first.moved) in (201, 202, 203)
    assert first.pattern in ("reward hacking", "reward bought with KL")


def test_the_recorded_reward_that_doubles_within_five_rows_is_dated() -> None:
    """From 0.45 at step 152 to 0.94 at step 157."""
    opened = next(e for e in notified(read_recording("exploding")) if e.signal == "kl")
    assert opened.step == 157
    assert re.search(r"reward ×[12][.\d]*,", opened.moved)
    assert date_of("reward", opened.moved) in (153, 154, 155)


@over("seed", range(20))
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
        "KL runs away from the reward",
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
    assert opened.moved.startswith(
        "first length ×3 since step 150, then learning_rate ×100 since step 200; "
    )


def test_what_moved_before_an_incident_without_a_known_cause_is_said_to_be_earlier() -> None:
    """So that the reader looks there first."""

    def change(row: Row, step: int) -> None:
        row["length"] *= 0.3 if step >= 170 else 1.0
        row["grad_norm"] *= 20.0 if step >= 200 else 1.0

    (opened,) = [e for e in notified(run(change, 210)) if e.event == "opened"][-1:]
    assert (opened.subject, opened.pattern) == ("grad_norm", "")
    assert opened.moved.startswith("length ×0.3 since step 170, before the incident; ")


def test_only_what_is_telling_is_called_flat() -> None:
    """A list of eight metrics that did nothing hides the one that did."""

    def change(row: Row, step: int) -> None:
        row["kl"] *= 1.3 ** max(0, step - 200)
        row["length"] *= 3.0 if step >= 205 else 1.0

    opened = next(event for event in notified(run(change, 215)) if event.signal == "kl")
    assert opened.moved == "length ×2.9 since step 205; no clear change: entropy, reward"


def _far_too_large_updates(row: Row, step: int) -> None:
    """The learning rate is raised at step 200; KL grows for long, entropy and length follow."""
    since = max(step - 200, 0)
    row["learning_rate"] = 1e-4 if since else 1e-6
    row["kl"] *= min(1.5**since, 1e4) ** 0.5 if since < 10 else (1.5**5) * 1.2 ** (since - 10)
    row["kl"] = min(row["kl"], 50.0)
    row["entropy"] *= 0.93 ** max(since - 5, 0)
    row["length"] *= 1.04 ** max(since - 5, 0)


def test_a_metric_with_an_incident_is_dated_by_it_in_all_messages() -> None:
    """KL moves on for long, and a later diagnosis alone would date it ever later."""
    events = notified(run(_far_too_large_updates))
    kl = [event for event in events if event.signal == "kl"]
    said = dates_of("kl", [event for event in events if event.step > kl[0].step])
    assert len(said) >= 2
    assert set(said) == {kl[0].onset}


def test_a_movement_has_the_date_of_its_own_incident() -> None:
    """Whatever a diagnosis would say by itself; the other direction is another movement."""
    dates = Dates({("kl", "up"): Own(300, lasts=True)}, Said())
    found = [Movement("kl", "up", 344, 8.0), Movement("length", "up", 340, 2.0)]
    recent = RecentRows()
    for step in range(250, 350):
        recent.add(step, {"kl": 0.02, "length": 200.0})
    dated = dates.applied_to(found, recent)
    assert [(movement.metric, movement.step) for movement in dated] == [
        ("kl", 300),
        ("length", 340),
    ]
    (fell,) = dates.applied_to([Movement("kl", "down", 344, 0.1)], recent)
    assert fell.step == 344


def _gamed(row: Row, step: int) -> None:
    """KL and reward rise from step 200 on, fast and then slowly; entropy falls after them."""
    since = max(step - 200, 0)
    row["kl"] += 0.02 * since
    row["reward"] += 1.5 * (1.0 - 0.95**since) + 0.005 * since
    row["entropy"] *= 0.96 ** max(since - 10, 0)


def test_a_movement_has_one_date_in_all_messages_even_of_its_own_incident() -> None:
    """The incident on reward opens last, when its rise has filled half of the rows looked at."""
    events = notified(run(_gamed))
    own = [event.onset for event in events if event.signal == "reward"]
    said = dates_of("reward", events)
    assert own
    assert len(said) >= 2
    assert len({*own, *said}) == 1


def test_an_escalation_that_no_pattern_fits_repeats_the_cause_with_its_own_advice() -> None:
    """A collapse of entropy that becomes critical long after the fall: nothing moves any more."""

    def change(row: Row, step: int) -> None:
        row["entropy"] *= 2.0
        if step >= 150:
            row["entropy"] = max(0.02, row["entropy"] * 0.95 ** (step - 149))
            row["reward"] -= min(0.2, 0.003 * (step - 150))

    events = [event for event in notified(run(change)) if event.signal == "entropy"]
    opened, escalated = events[0], events[-1]
    assert (opened.severity, escalated.severity) == ("warning", "critical")
    assert opened.pattern
    assert escalated.cause == opened.cause
    assert advice(opened) == [opened.remedy]
    assert advice(escalated) == [EntropyCollapseDetector.recommendations["critical"]]
    assert f"Likely cause: {opened.cause}." in event_text(escalated)
    message = message_of(escalated, Context(run="a", now=0.0, opening=opened))
    assert message.fields["Likely cause"] == opened.cause
    assert message.fields["To do"] == escalated.recommendation


def test_an_incident_keeps_its_onset_when_it_escalates() -> None:
    """People have read it; a later look at the curve would give another date."""
    onsets: dict[int, set[int | None]] = {}
    for event in notified(read_recording("drifting")):
        onsets.setdefault(event.incident, set()).add(event.onset)
    assert all(len(found) == 1 for found in onsets.values())


def test_a_movement_is_never_dated_later_while_incidents_are_open() -> None:
    """Not even that of a metric without an incident, such as length without its detector."""
    without = [kind() for kind in CATALOGUE if kind.name != "length_blowup"]
    said = dates_of("length", notified(run(_far_too_large_updates), without))
    assert len(said) >= 3
    assert said == sorted(said, reverse=True)


def test_the_level_before_an_incident_is_that_of_the_last_rows_before_its_onset() -> None:
    """KL has risen for long, so that its median over all rows is far below."""

    def climb_and_explode(row: Row, step: int) -> None:
        row["kl"] *= 1.01 ** min(step, 200) * 1.5 ** max(min(step - 200, 15), 0)

    rows = run(climb_and_explode)
    opened, *later = [event for event in notified(rows) if event.signal == "kl"]
    assert opened.onset is not None
    just_before = [row["kl"] for row in rows[opened.onset - 10 : opened.onset]]
    assert opened.before == median(just_before)
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
    assert events[-1].remedy.startswith("Go back to a checkpoint from before step ")


@pytest.mark.parametrize(
    ("follows", "pattern", "moved"),
    [("kl", "gradients and KL", "kl ×"), ("loss", "gradients and loss", "loss -0.0044 → ")],
)
def test_gradients_that_jump_with_kl_or_loss_are_a_reason_to_go_back(
    follows: str, pattern: str, moved: str
) -> None:
    """The gradient norm is ×50 from one row on, the other follows in the next one.

    The message says that it rose, so its advice does not begin with "if KL has risen". The learning
    rate is logged and constant.
    """

    def change(row: Row, step: int) -> None:
        late = max(0, step - 240)
        row["grad_norm"] *= 50.0 if step >= 240 else 1.0
        row["kl"] *= min(10.0, 1.0 + 2.0 * late) if follows == "kl" else 1.0
        row["loss"] += min(1.0, 0.2 * late) if follows == "loss" else 0.0

    with klarm.init("a"):
        for step, row in enumerate(run(change, 280)):
            klarm.log(row, step=step)
    records = read_journal(Path("klarm_runs/a/journal.jsonl"))
    events = [record for record in records if isinstance(record, Event)]
    opened = next(event for event in events if event.metric == "grad_norm")
    assert (opened.event, opened.severity, opened.step) == ("opened", "critical", 244)
    assert moved in opened.moved
    assert opened.pattern == pattern
    assert advice(opened) == [
        "Go back to a checkpoint from before step 240. Then compare rewards, advantages and loss "
        "with those before, and lower the learning rate or clip gradients at a smaller norm."
    ]
    # What is said about an incident on KL is about KL.
    assert {event.pattern for event in events if event.metric == "kl"} <= {
        "",
        "KL ahead of the reward",
        "KL runs away from the reward",
    }


@pytest.mark.parametrize("logged", [True, False])
def test_where_no_learning_rate_is_logged_its_jump_is_not_ruled_out(logged: bool) -> None:
    """Entropy and reward would move the same way as when a reward is gamed."""

    def change(row: Row, step: int) -> None:
        row.pop("learning_rate", None)
        if logged:
            row["learning_rate"] = 1e-5
        if step >= 200:
            row["kl"] = 1.7
            row["reward"] += min(0.6, (step - 200) * 0.03)
            row["entropy"] *= max(0.1, 0.9 ** (step - 200))

    hacked = [event for event in notified(run(change, 280)) if event.pattern == "reward hacking"]
    assert hacked
    for event in hacked:
        said = (
            "learning_rate is not logged, so klarm cannot rule out that it jumped." in event.remedy
        )
        assert said != logged


def _slow_fall(row: Row, step: int) -> None:
    """KL explodes; the reward, which rose slowly, falls by a quarter of its noise per row."""
    late = max(0, step - 180)
    row["kl"] *= 2.0 ** min(late / 6, 8)
    row["reward"] += 0.05 + 0.001 * step - 0.008 * min(late, 60)


def test_the_factor_of_a_metric_compares_with_the_level_that_its_own_incident_shows() -> None:
    """Messages about one run gave ×0.74 for a reward that had fallen to a third."""
    rows = run(_slow_fall)
    events = notified(rows)
    own = next(event for event in events if event.subject == "reward")
    assert own.before == pytest.approx(median(row["reward"] for row in rows[155:180]), rel=0.04)
    later = [e for e in events if e.subject != "reward" and e.step > own.step]
    assert later
    for event in later:
        said = re.search(r"reward ×([\d.]+) since step (\d+)", event.moved)
        assert said is not None
        assert int(said[2]) == own.onset
        now = median(row["reward"] for row in rows[event.step - 9 : event.step + 1])
        assert float(said[1]) == pytest.approx(now / own.before, abs=0.01)


def test_the_level_before_a_slow_movement_is_not_from_inside_it() -> None:
    """Its onset may be dated some rows late, so these rows are left out, if there are enough."""
    rows = RecentRows()
    for step in range(30):
        row = {"reward": 0.5 - 0.02 * max(0, step - 20), "kl": 0.02 * 1.1 ** max(0, step - 20)}
        rows.add(step, row)
    reward, kl = level_before(rows, "reward", 26), level_before(rows, "kl", 21)
    assert reward is not None
    assert kl is not None
    assert (reward.level, kl.level) == (0.5, 0.02)
    few = RecentRows()
    for step in range(8):
        few.add(step, {"reward": 0.5})
    assert few.just_before("reward", 7) == [0.5] * 7
