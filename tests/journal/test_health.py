"""How a run is: its worst open incident, and whether a process still trains it."""

from __future__ import annotations

import math
from pathlib import Path

import klarm
from klarm.journal import Fold, activity_of, is_surely_free, rank_of, run_health, worst_of

JOURNAL = Path("klarm_runs/a/journal.jsonl")


def folded() -> Fold:
    fold = Fold(JOURNAL)
    fold.update()
    return fold


def test_a_run_is_as_bad_as_its_worst_open_incident() -> None:
    """Without one it is fine, and without a step nothing is known."""
    klarm.init("a", console=False)
    assert run_health(folded(), [], is_damaged=False) == "empty"
    assert run_health(folded(), [], is_damaged=True) == "unreadable"
    klarm.log({"kl": 0.1})
    assert run_health(folded(), [], is_damaged=True) == "ok"
    klarm.log({"kl": math.nan})
    known = folded().incidents.values()
    assert run_health(folded(), known, is_damaged=False) == "critical"
    worst = worst_of(known)
    assert worst is not None
    assert worst.signal == "kl"


def test_the_worst_come_first() -> None:
    """Those that cannot be read or are not watched come before those that are fine."""
    states = ("empty", "ok", "unwatched", "unreadable", "warning", "critical")
    order = sorted(states, key=rank_of)  # type: ignore[arg-type]
    assert order == ["critical", "warning", "unreadable", "unwatched", "ok", "empty"]


def test_a_run_is_trained_until_it_finishes_or_its_process_is_gone() -> None:
    """The lock of the journal tells."""
    klarm.init("a", console=False)
    klarm.log({"kl": 0.1})
    assert activity_of(folded(), lambda: is_surely_free(JOURNAL)) == "training"
    content = JOURNAL.read_bytes()
    klarm.finish()
    assert activity_of(folded(), lambda: is_surely_free(JOURNAL)) == "finished"
    JOURNAL.write_bytes(content)  # as if it had been killed
    assert activity_of(folded(), lambda: is_surely_free(JOURNAL)) == "stopped"
