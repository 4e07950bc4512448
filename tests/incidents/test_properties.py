"""What holds of incidents whatever happens: random series, rollbacks, crashes and commands.

Covers corrections.py too; tests/monitor/test_resume_incidents.py has its cases one by one.
"""

from __future__ import annotations

import math
import random
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import klarm
from klarm import api
from klarm.analysis.replay import ids_in, replay
from klarm.config.layers import load
from klarm.journal.fold import Fold
from klarm.journal.reading import read_journal
from klarm.monitor.monitor import Monitor
from klarm.sources import read_log
from klarm.types import Command, Event, Reason

JOURNAL = Path("klarm_runs/a/journal.jsonl")
# Short, so that a run of a few hundred rows goes through every state.
RULES = {"confirm_steps": 3, "resolve_after": 5, "accept_after": 30, "reopen_within": 15}

levels = st.sampled_from([0.01, 0.01, 0.05, 0.6, 3.0, 40.0, math.nan])
happenings = st.one_of(
    st.tuples(st.just("rows"), levels, st.integers(1, 60)),
    st.tuples(st.just("rows"), levels, st.integers(1, 60)),
    st.tuples(st.just("back"), st.integers(1, 80)),
    st.tuples(st.just("crash")),
    st.tuples(st.just("finish")),
    st.tuples(st.sampled_from(["close", "accept", "ack"])),
)


def start() -> Monitor:
    return klarm.init("a", console=False, incidents=RULES)


def crash() -> None:
    """End the process as kill -9 does: nothing more is written."""
    monitor = api._current
    assert monitor is not None
    if monitor._command_watch is not None:
        monitor._command_watch.stop(1.0)
    monitor._fall_silent()
    api._replace_current(None)


def live(story: Sequence[tuple], seed: int) -> None:
    """Live through a story, and record it."""
    shutil.rmtree("klarm_runs", ignore_errors=True)
    rng = random.Random(seed)
    monitor, step = start(), 0
    for number, (what, *details) in enumerate(story):
        if what == "rows":
            level, count = details
            for _ in range(count):
                row = {"kl": level * rng.lognormvariate(0, 0.3), "reward": rng.random()}
                monitor.log(row, step)
                step += 1
        elif what == "back":
            step = max(0, step - details[0])
        elif what in ("crash", "finish"):
            crash() if what == "crash" else klarm.finish()
            monitor = start()
        else:
            opened = [incident for incident in monitor.incidents if incident.state != "pending"]
            if opened:
                id_ = opened[-1].id
                said = Command(command=what, key=str(number), time=0.0, by="ada", incident=id_)
                monitor.hand_over(said)
    klarm.finish()


def recorded() -> list[Event]:
    return [record for record in read_journal(JOURNAL) if isinstance(record, Event)]


@given(st.lists(happenings, min_size=2, max_size=12), st.integers(0, 1000))
@settings(max_examples=30)
def test_any_story_keeps_the_invariants(story: list[tuple], seed: int) -> None:
    """Live equals replay, no event repeats, every incident ends, and no id is used twice."""
    live(story, seed)
    events = recorded()
    again = replay(
        read_log(JOURNAL.parent, pytest.fail),
        lambda known: load(recorded=known),
        ids_in(JOURNAL),
    )
    assert again.events == events

    opened = [event for event in events if event.event == "opened"]
    assert len({event.id for event in opened}) == len(opened)
    assert len({event.incident for event in opened}) == len(opened)
    assert all(event.reason in get_args(Reason) for event in events)
    seqs: dict[str, list[int]] = {}
    for event in events:
        seqs.setdefault(event.id, []).append(event.seq)
    assert all(known == list(range(1, len(known) + 1)) for known in seqs.values())

    fold = Fold(JOURNAL)
    fold.update()
    for record in fold.incidents.values():
        assert record.opened.event == "opened"
        assert record.state in ("resolved", "ended"), record
    keys = {record.id for record in fold.incidents.values()}
    assert keys == {event.id for event in events}


@given(st.lists(happenings, min_size=2, max_size=10), st.integers(0, 1000))
@settings(max_examples=20)
def test_a_nan_is_never_hidden_or_delayed(story: list[tuple], seed: int) -> None:
    """Whatever was before it, closed or accepted: at its step, KL is critical and people know."""
    live(story, seed)
    monitor = start()
    monitor.log({"kl": 0.01, "reward": 0.5})
    monitor.log({"kl": math.nan, "reward": 0.5})
    assert [incident.signal for incident in monitor.critical] == ["kl"]
    (incident,) = monitor.critical
    last = [event for event in recorded() if event.id == incident.id]
    assert last[-1].severity == "critical"
    assert last[-1].event in ("opened", "escalated", "reopened")
    klarm.finish()
