"""A row of an earlier step: a duplicate, a late one, or training that went back. (steps.py)"""

from __future__ import annotations

import math
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

import klarm
from cases import over
from klarm.analysis.replay import replay
from klarm.config.layers import Config, load
from klarm.sources import read_log
from klarm.types import Alert
from recorded_lines import lines_of

JOURNAL = Path("klarm_runs/a/journal.jsonl")


def as_recorded(recorded: Mapping[str, object] | None) -> Config:
    return load(recorded=recorded or {})


def quiet(message: str) -> None:
    raise AssertionError(message)


def replayed() -> list[Alert]:
    return replay(read_log(Path("klarm_runs/a"), quiet), as_recorded).alerts


def test_an_evaluator_that_lags_is_no_rollback() -> None:
    """Its rows are of one step before, and of metrics that come with no other row."""
    klarm.init("a", console=False)
    for step in range(60):
        klarm.log({"kl": 0.1 + step % 3 / 100}, step)
        if step:
            klarm.log({"reward": step % 5 / 10}, step - 1)
    assert lines_of("a", "resume") == []
    late = [line for line in lines_of("a", "step") if "late" in line]
    assert [(line["step"], line["late"]) for line in late] == [(s, s - 1) for s in range(1, 60)]


@pytest.mark.parametrize("distance", [1, 7, 400])
def test_a_late_row_is_judged_whatever_its_distance(distance: int) -> None:
    """Within the step under way, at which its alerts and its incident are reported."""
    klarm.init("a", console=False)
    for step in range(500):
        klarm.log({"kl": 0.1 + step % 3 / 100}, step)
    (alert,) = klarm.log({"loss": math.nan}, 499 - distance)
    assert (alert.step, alert.severity) == (499, "critical")
    assert [event["step"] for event in lines_of("a", "event")] == [499]
    assert lines_of("a", "resume") == []


@pytest.mark.parametrize("distance", [1, 30])
def test_the_onset_of_an_incident_is_the_step_that_its_late_value_belongs_to(distance: int) -> None:
    """It opens when the value arrives; the checkpoint to go back to is from before the value."""
    watched = klarm.init("a", console=False)
    for step in range(100):
        klarm.log({"kl": 0.1 + step % 3 / 100}, step)
        if step % 10 == 0:
            Path(f"checkpoint-{step}").write_text("weights")
            watched.checkpoint(step, f"checkpoint-{step}")
    klarm.log({"loss": math.nan}, 99 - distance)
    (event,) = lines_of("a", "event")
    assert (event["started"], event["onset"]) == (99, 99 - distance)
    assert event["checkpoint"] == f"checkpoint-{(98 - distance) // 10 * 10}"
    again = replay(read_log(Path("klarm_runs/a"), quiet), as_recorded)
    assert [incident.opened.onset for incident in again.incidents] == [99 - distance]
    watched.resume(120)  # which rebuilds the incidents from the journal
    assert [incident.onset for incident in watched.incidents] == [99 - distance]


def test_rows_that_come_late_together_are_all_judged() -> None:
    """Each is of a step of its own, so none is what was said of that step before."""
    klarm.init("a", console=False, reward_collapse={"enabled": True})
    for step in range(100):
        klarm.log({"kl": 0.1 + step % 3 / 100}, step)
    for step in range(50, 100):
        klarm.log({"grad_norm": 1.0 + step % 3 / 100}, step - 1)
    (alert,) = klarm.log({"grad_norm": 1000.0}, 99)
    assert alert.detector == "gradient_norm_spike"


def test_what_was_logged_before_is_a_duplicate() -> None:
    """It is recorded and changes nothing, with NaN, and with a metric that klarm does not know."""
    watched = klarm.init("a", console=False)
    rows = [{"kl": 0.1 + step % 3 / 100, "epoch": float(step)} for step in range(60)]
    rows[40]["kl"] = math.nan
    for step, row in enumerate(rows):
        klarm.log(row, step)
    for step in range(30, 60):
        assert klarm.log(rows[step], step) == [] or step == 59  # a NaN of this step counts again
    assert lines_of("a", "resume") == []
    assert watched.steps_logged == 60
    repeats = [line["repeats"] for line in lines_of("a", "step") if "late" in line]
    assert len(repeats) == 29
    assert repeats[10] == {"kl": "NaN", "epoch": 40.0}
    klarm.finish()
    assert replay(read_log(Path("klarm_runs/a"), quiet), as_recorded).steps == 60


def test_another_value_of_a_metric_that_is_known_there_means_that_training_went_back() -> None:
    """Also if it was logged at a later step only, and if the rest of the row is the same."""
    klarm.init("a", console=False)
    for step in range(0, 60, 2):
        klarm.log({"kl": 0.1 + step % 3 / 100, "reward": 0.5}, step)
    klarm.log({"kl": 0.7, "reward": 0.5}, 50)
    klarm.log({"kl": 0.1, "reward": 0.5}, 51)
    klarm.log({"kl": 0.2}, 45)
    assert [line["step"] for line in lines_of("a", "resume")] == [50, 45]


def test_a_duplicate_that_is_too_old_to_be_remembered_is_a_rollback() -> None:
    """Values of 300 rows are kept in memory. Training that starts over looks the same."""
    klarm.init("a", console=False)
    for step in range(400):
        klarm.log({"kl": 0.1 + step / 1000}, step)
    klarm.log({"kl": 0.1 + 120 / 1000}, 120)
    assert lines_of("a", "resume") == []
    klarm.log({"kl": 0.1 + 50 / 1000}, 50)
    assert [line["step"] for line in lines_of("a", "resume")] == [50]


def test_resume_and_a_new_process_are_always_rollbacks() -> None:
    """Whatever the row holds."""
    watched = klarm.init("a", console=False)
    for step in range(50):
        klarm.log({"kl": 0.1}, step)
    watched.resume(40)
    klarm.log({"kl": 0.1}, 40)
    klarm.finish()
    klarm.init("a", console=False)
    klarm.log({"kl": 0.1}, 30)
    assert [line["step"] for line in lines_of("a", "resume")] == [40, 30]


def test_a_late_row_goes_with_the_step_it_came_at() -> None:
    """Training that goes back to before that step has not seen it yet."""
    klarm.init("a", console=False)
    for step in range(50):
        klarm.log({"kl": 0.1 + step % 3 / 100}, step)
    klarm.log({"reward": 0.3}, 10)
    klarm.log({"kl": 0.5}, 30)  # goes back
    klarm.log({"reward": 0.4}, 10)  # comes again, and is not known
    assert [line["step"] for line in lines_of("a", "resume")] == [30]
    assert [(line["step"], line["late"]) for line in lines_of("a", "step") if "late" in line] == [
        (49, 10),
        (30, 10),
    ]


@over("seed", range(4))
def test_live_replay_and_a_resumed_run_agree(seed: int) -> None:
    """With rows that are late, repeated or gone back to, several processes, and NaN."""
    shutil.rmtree("klarm_runs", ignore_errors=True)
    rng = random.Random(seed)
    live: list[Alert] = []
    step = 0
    written: dict[int, dict[str, float]] = {}
    for _ in range(3):  # processes
        klarm.init("a", console=False)
        for _ in range(rng.randint(50, 300)):
            value = rng.choice([math.nan, 5.0]) if rng.random() < 0.02 else rng.gauss(0.1, 0.01)
            written[step] = {"kl": value, "grad_norm": rng.lognormvariate(0, 0.3)}
            live += klarm.log(written[step], step)
            chance = rng.random()
            if chance < 0.2:
                live += klarm.log({"reward": rng.gauss(0.5, 0.2)}, max(0, step - rng.randint(0, 9)))
            elif chance < 0.25:
                back = rng.choice(sorted(written))
                live += klarm.log(written[back], back)
            elif chance < 0.27:
                step = max(0, step - rng.randint(1, 40))
                live += klarm.log({"kl": rng.gauss(0.1, 0.01)}, step)
                written = {at: row for at, row in written.items() if at < step}
            step += rng.choice([1, 1, 1, 3])
        klarm.finish()
    assert live
    assert repr(live) == repr(replayed())
    assert len(lines_of("a", "alert")) == len(live)


def test_a_log_that_is_followed_has_its_late_rows_recorded() -> None:
    """Where it is followed again, they are known, and what repeats is, too."""
    from klarm.journal import Source
    from klarm.metrics import Binding
    from klarm.sources import LogRow
    from klarm.sources.recorded import PassingOver, Recorded

    rows = [(0, {"kl": 0.1}), (1, {"kl": 0.2}), (0, {"reward": 0.5}), (2, {"kl": 0.3})]
    rows += [(1, {"kl": 0.2, "entropy": 1.0}), (3, {"kl": 0.4}), (2, {"kl": 0.3}), (4, {"kl": 0.5})]
    watched = klarm.init("a", console=False)
    watched._source(Source("log.jsonl", 0))
    for step, row in rows:
        klarm.log(row, step)
    assert lines_of("a", "resume") == []
    passing = PassingOver(Binding(), Recorded(JOURNAL))
    news = [
        new for step, row in [*rows, (5, {"kl": 0.6})] for new in passing.take(LogRow(step, row))
    ]
    assert (news, passing.differs) == ([LogRow(5, {"kl": 0.6})], False)


RUN_WITH_LATE_ROWS = """
import itertools
from pathlib import Path
from klarm.cli.demo import read_recording
from klarm.detectors import CATALOGUE
from klarm.journal import FileJournal, counting_ids
from klarm.monitor import Monitor

monitor = Monitor(
    "a",
    [kind() for kind in CATALOGUE],
    FileJournal(Path("klarm_runs/a"), print),
    ids=counting_ids(),
    clock=itertools.count(1000.0).__next__,
)
rows = [{k: v for k, v in row.items() if k != "step"} for row in read_recording("exploding")]
for step, row in enumerate(rows):
    monitor.log(row, step)
    if step % 7 == 3:
        monitor.log({**rows[step - 1], "entropy_of_eval": 0.5, "advantage_std": 0.1}, step - 1)
monitor.finish()
"""


def test_a_journal_does_not_depend_on_the_hash_seed() -> None:
    """The repeated values of a late row have the order in which they were logged."""
    journals = []
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        subprocess.run([sys.executable, "-c", RUN_WITH_LATE_ROWS], env=environment, check=True)
        journals.append(JOURNAL.read_text())
        shutil.rmtree("klarm_runs")
    assert '"repeats"' in journals[0]
    assert journals[0] == journals[1]
