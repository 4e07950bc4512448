"""Rollbacks: what was undone no longer counts, and everything is as if it had never been."""

from __future__ import annotations

import math

import numpy as np
import pytest

import klarm
from klarm.console import Console
from klarm.detectors import KLExplosionDetector, LossNanDetector
from klarm.journal.file import MemoryJournal
from klarm.journal.fold import Fold
from klarm.journal.records import Resume
from klarm.monitor.monitor import Monitor
from recorded_lines import lines_of

pytestmark = pytest.mark.usefixtures("one_detector")

SIGMA = [0.4, 0.6] * 50  # mean 0.5, standard deviation 0.1


def monitor(journal: MemoryJournal | None = None) -> Monitor:
    return Monitor("test", [KLExplosionDetector()], journal)


def test_a_rollback_rebuilds_the_baseline_from_the_record() -> None:
    """After it the monitor is where it would be had the undone steps never been."""
    undone = monitor(MemoryJournal())
    straight = monitor(MemoryJournal())
    rng = np.random.default_rng(2)
    values = rng.lognormal(-3, 0.4, 1000).tolist()
    for step in range(600):
        undone.log({"kl": values[step]}, step)
        straight.log({"kl": values[step]}, step)
    for step in range(600, 1000):
        undone.log({"kl": 40.0 + values[step]}, step)
    for step in range(600, 1000):
        alerts = undone.log({"kl": values[step]}, step)
        assert alerts == straight.log({"kl": values[step]}, step)
        assert undone.detectors[0].score == straight.detectors[0].score


def test_a_rollback_is_recorded_and_said(capsys: pytest.CaptureFixture[str]) -> None:
    """With the steps that no longer count."""
    klarm.init("a")
    for step in range(20):
        klarm.log({"kl": 0.1}, step)
    klarm.log({"kl": 0.2}, 12)
    klarm.finish()
    assert [line["step"] for line in lines_of("a", "resume")] == [12]
    said = capsys.readouterr().err
    assert "run a continues at step 12; steps 12 to 19 are rolled back" in said


def test_the_notice_of_a_run_that_starts_over_says_that_a_new_run_needs_a_new_name(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """At or below its first step nothing is left of it; after that it goes on."""
    with klarm.init("a") as first:
        for step in range(5, 20):
            first.log({"kl": 0.1}, step)
    for step, said in (
        (20, "run a continues at step 20\n"),
        (5, "run a starts over: steps 5 to 20"),
    ):
        capsys.readouterr()
        with klarm.init("a") as again:
            again.log({"kl": 0.1}, step)
        shown = capsys.readouterr().err
        assert "run a exists: its journal ends at step" in shown
        assert said in shown
        assert ("a new run needs a new name" in shown) == (step == 5)
        assert "run a ended after 1 row in this process" in shown


def test_the_end_of_a_run_says_that_steps_which_were_rolled_back_are_counted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`klarm show` counts the others: 21 of these."""
    with klarm.init("a") as monitor:
        for step in range(60):
            monitor.log({"kl": 0.1}, step)
        for step in range(21):
            monitor.log({"kl": 0.2}, step)
    shown = capsys.readouterr().err
    assert "run a ended after 81 rows, including those that were rolled back: no " in shown


def test_a_log_that_keeps_going_back_is_taken_as_it_comes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Two counters in one log must not make every step a rebuild."""
    klarm.init("a")
    for i in range(500):
        klarm.log({"kl": 0.1}, 1000 + i)
        klarm.log({"kl": 0.2 + i / 1000}, i)
    assert len(lines_of("a", "resume")) == 100
    assert capsys.readouterr().err.count("steps keep going back") == 1


def test_going_back_to_before_what_is_in_memory_keeps_what_is_known() -> None:
    """There is nothing to rebuild from, and nothing to fail for."""
    watched = Monitor("a", [KLExplosionDetector()], snapshot_rows=20)
    for step, value in enumerate(SIGMA):
        watched.log({"kl": value}, step)
    assert watched.log({"kl": 5.0}, 10)
    assert watched.detectors[0]._seen == 101  # type: ignore[attr-defined]


def test_an_explicit_resume_does_the_same_as_a_step_back() -> None:
    """For integrations that know when a checkpoint was loaded."""
    journal = MemoryJournal()
    watched = monitor(journal)
    for step, value in enumerate(SIGMA):
        watched.log({"kl": value}, step)
    watched.resume(40)
    assert watched.log({"kl": 0.5}) == []
    assert [record.step for record in journal.records if isinstance(record, Resume)] == [40]
    fold = Fold(journal.stored())
    fold.update()
    assert fold.last_step == 40


def test_a_monitor_without_a_record_is_rebuilt_from_the_trainers() -> None:
    """On ranks other than 0: it says what the one with a journal says."""
    rows = [(step, {"train/kl": value}) for step, value in enumerate(SIGMA)]
    recording, silent = monitor(MemoryJournal()), monitor()
    for step, metrics in rows:
        recording.log(metrics, step)
    for watched in (recording, silent):
        watched.resume(80, rows)
    after = [0.4, 0.9, 0.6, 2.0]
    one, other = ([run.log({"train/kl": kl}) for kl in after] for run in (recording, silent))
    assert one == other
    assert [len(alerts) for alerts in one] == [0, 1, 0, 1]


def test_a_new_journal_takes_in_the_trainers_record() -> None:
    """What came before the step at which training goes on, so that a replay knows it too."""
    watched = klarm.init("a", console=False)
    watched.resume(2, [(0, {"train/kl": 0.1}), (1, {"train/kl": 0.2}), (1, {"eval_loss": 1.0})])
    watched.log({"train/kl": 0.3})
    assert [(line["step"], line["metrics"]) for line in lines_of("a", "step")] == [
        (0, {"kl": 0.1}),
        (1, {"kl": 0.2}),
        (1, {"eval_loss": 1.0}),
        (2, {"kl": 0.3}),
    ]
    assert lines_of("a")[1]["type"] == "binding"
    assert [line["step"] for line in lines_of("a", "resume")] == [2]


def test_a_journal_with_steps_keeps_its_own() -> None:
    """The trainer's record rebuilds the detectors, and is not written a second time."""
    first = klarm.init("a", console=False)
    for step in range(9):
        first.log({"kl": 0.1}, step)
    second = klarm.init("a", console=False)
    second.resume(6, [(step, {"kl": 0.1}) for step in range(6)])
    second.log({"kl": 0.1})
    assert [line["step"] for line in lines_of("a", "step")] == [*range(9), 6]
    assert [line["step"] for line in lines_of("a", "resume")] == [6]


def test_a_negative_step_undoes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """It is taken as the next one, which is said once; an open incident stays open."""
    watched = klarm.init("a")
    for step in range(5):
        watched.log({"kl": 0.5}, step)
    watched.log({"kl": math.nan}, 5)
    for _ in range(2):
        watched.log({"kl": 0.5}, -5)
    assert [line["step"] for line in lines_of("a", "step")] == [*range(8)]
    assert [incident.signal for incident in watched.critical] == ["kl"]
    said = capsys.readouterr().err
    assert said.count("step -5 is not a non-negative integer") == 1
    assert "rolled back" not in said


def test_after_a_resume_an_even_earlier_step_is_a_step_back() -> None:
    """Nothing is learnt twice."""
    watched = monitor(MemoryJournal())
    for step, value in enumerate(SIGMA):
        watched.log({"kl": value}, step)
    watched.resume(40)
    watched.log({"kl": 0.5}, 39)
    assert watched.detectors[0]._seen == 40


@pytest.mark.parametrize("opens_at", [0, 40])
def test_a_run_that_was_killed_says_which_incidents_are_open_when_it_resumes(
    capsys: pytest.CaptureFixture[str], opens_at: int
) -> None:
    """Nothing has changed about them, so no event says it. One may have opened at step 0."""
    journal = MemoryJournal()
    killed = Monitor("a", [LossNanDetector()], journal)
    for step in range(60):
        killed.log({"loss": math.nan if step >= opens_at else 0.1}, step)
    assert [incident.opened for incident in killed.incidents] == [opens_at]
    resumed = Monitor("a", [LossNanDetector()], journal, console=Console())
    resumed.log({"loss": math.nan}, 60)
    assert "run a continues at step 60; incident 1 on loss is still open" in capsys.readouterr().err
