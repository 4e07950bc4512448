"""One view of a run: view.py and marks.py, with what people have written beside its journal."""

from __future__ import annotations

import math
import time

from serving_runs import RUNS, write_steps

import klarm
from klarm.journal import append_command
from klarm.runs import FalseAlarm, mark, marked, read_run
from klarm.store import FolderStore
from klarm.types import Command


def command(kind: str, incident: str) -> Command:
    return Command(command=kind, key=kind, time=time.time(), by="ada", incident=incident)  # type: ignore[arg-type]


def test_a_run_that_is_not_there_is_no_error() -> None:
    """It is as one that is empty; what cannot be read says why."""
    view = read_run(RUNS / "nope")
    assert (view.health, view.fold.steps, view.name) == ("empty", 0, "nope")
    assert view.unknown_because == "no step is recorded yet"
    (RUNS / "bad").mkdir(parents=True)
    (RUNS / "bad" / "journal.jsonl").mkdir()
    assert read_run(RUNS / "bad").fold.steps == 0


def test_what_people_ask_for_at_rest_shows_at_once() -> None:
    """Even before anybody has recorded it; the state of the journal itself does not change."""
    monitor = klarm.init("a", dir=str(RUNS), console=False)
    for step in range(60):
        monitor.log({"kl": 0.01 if step < 50 else math.nan}, step=step)
    klarm.finish()
    view = read_run(RUNS / "a")
    known = next(iter(view.incidents.values()))
    assert (view.activity, view.health, known.is_open) == ("finished", "critical", True)
    append_command(RUNS / "a", command("ack", known.id))
    append_command(RUNS / "a", command("close", known.id))
    later = read_run(RUNS / "a")
    assert later.acknowledged == {known.id: ["ada"]}
    assert not later.incidents[known.id].is_open
    assert later.fold.incidents[known.id].is_open
    assert len(later.open_incidents) == len(view.open_incidents) - 1


def test_the_worst_runs_come_first() -> None:
    """By what is open, then by what was seen last."""
    for name, last in (("broken", math.nan), ("fine", 0.01)):
        monitor = klarm.init(name, dir=str(RUNS), console=False)
        for step in range(60):
            monitor.log({"kl": 0.01 if step < 50 else last}, step=step)
        klarm.finish()
    (RUNS / "empty").mkdir()
    (RUNS / "empty" / "journal.jsonl").touch()
    views = [read_run(RUNS / name) for name in ("empty", "fine", "broken")]
    order = [view.name for view in sorted(views, key=lambda view: view.order)]
    assert order == ["broken", "fine", "empty"]


def test_an_incident_whose_steps_were_rolled_back_is_not_shown_on_others() -> None:
    """Although it was over by then; it is told from those that were not undone."""

    def train(kls: list[float], start: int) -> None:
        monitor = klarm.init("a", dir=str(RUNS), console=False)
        for step, kl in enumerate(kls, start):
            monitor.log({"kl": kl}, step=step)
        klarm.finish()

    broken = [0.01] * 50 + [math.nan] * 3 + [0.01] * 250
    train([*broken, *broken], 0)
    before = read_run(RUNS / "a").incidents.values()
    assert not any(known.is_open or known.was_rolled_back for known in before)
    early = {known.id for known in before if known.last.started < 310}
    train([0.01] * 100, 310)
    view = read_run(RUNS / "a")
    undone = {known.id for known in view.incidents.values() if known.was_rolled_back}
    assert undone == view.incidents.keys() - early != set()
    assert {view.incidents[id_].last.step for id_ in undone} == {310}
    assert not any(known.was_rolled_back for known in view.fold.incidents.values())
    train([0.01] * 100, 0)
    later = read_run(RUNS / "a").incidents
    assert all(later[id_].was_rolled_back for id_ in view.incidents)


def test_a_mark_is_taken_back_by_a_later_one() -> None:
    """Damaged lines are skipped."""
    write_steps("a", {1: {"kl": 0.1}})
    store = FolderStore(RUNS)
    assert marked(store, "a") == {}
    mark(store, "a", FalseAlarm("k1", 1.0, "ada", "a test"))
    mark(store, "a", FalseAlarm("k2", 1.0, "bob"))
    with (RUNS / "a" / "false_alarms.jsonl").open("ab") as file:
        file.write(b"nothing of that kind\n")
    mark(store, "a", FalseAlarm("k1", 2.0, "ada", is_marked=False))
    assert set(marked(store, "a")) == {"k2"}
