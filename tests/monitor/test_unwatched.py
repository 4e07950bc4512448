"""Whether a recorded run was watched at all, as `klarm runs` and the page say it: unwatched.py."""

from __future__ import annotations

from pathlib import Path

import pytest

import klarm
import klarm.detectors
from klarm.metrics import METRICS
from klarm.runs import RunView, read_run
from own_parts import PassRateDetector

ODD = {"H": 1.0, "KL_div": 0.1}


def recorded(row: dict[str, float], steps: int = 5, *, finish: bool = True) -> RunView:
    """Return a run that logs the same row again and again."""
    for _ in range(steps):
        klarm.log(row)
    if finish:
        klarm.finish()
    return read_run(Path("klarm_runs/a"))


def test_a_run_of_which_no_detector_knows_a_metric_is_not_ok() -> None:
    """The first names it logs are named, and the tense tells whether it still trains."""
    klarm.init("a", console=False)
    run = recorded(ODD, finish=False)
    assert run.health == "unwatched"
    assert run.not_watched == "nothing is watched: no detector knows any of H, KL_div"
    run = recorded({f"m{number}": 1.0 for number in range(9)} | ODD)
    assert run.not_watched == (
        "nothing was watched: no detector knows any of H, KL_div, m0, m1, m2 and 6 more"
    )


def test_a_single_metric_that_only_explains_others_is_not_watched() -> None:
    """It is known to klarm, and no detector judges it."""
    klarm.init("a", console=False)
    only_shown = [name for name in METRICS if METRICS[name].only_shown]
    assert recorded({only_shown[0]: 0.5}).health == "unwatched"


@pytest.mark.parametrize(
    "row", [{"KL_div": 0.1, "reward": 1.0}, {"H": 1.0, "my/aux_loss_x": 2.0}, {"objective/kl": 0.1}]
)
def test_one_metric_that_a_detector_reads_is_enough(row: dict[str, float]) -> None:
    """A loss of any name is one: it may become NaN."""
    klarm.init("a", console=False)
    run = recorded(row)
    assert (run.health, run.not_watched) == ("ok", "")


def test_the_first_step_of_a_run_is_no_reason_to_worry() -> None:
    """Some trainers log what they have learnt only with the second."""
    klarm.init("a", console=False)
    assert recorded(ODD, steps=1, finish=False).health == "ok"
    assert recorded({**ODD, "kl": 0.1}, steps=1).health == "ok"


def test_what_a_detector_of_the_users_own_reads_is_not_known() -> None:
    """Nor if only a later process of the run has it."""
    klarm.init("a", console=False)
    assert recorded(ODD).health == "unwatched"
    klarm.init("a", console=False, detectors=[PassRateDetector()])
    assert recorded({"pass_rate": 0.5}).health == "ok"


def test_who_switches_detectors_off_is_not_told_that_nothing_is_watched() -> None:
    """Of those that are on, one must read something."""
    off = {kind.name: {"enabled": False} for kind in klarm.detectors.CATALOGUE}
    klarm.init("a", console=False, **off)
    assert recorded({"kl": 0.1}).health == "ok"
    klarm.init("a", console=False, **{**off, "kl_budget": {"enabled": True}})
    assert recorded({"reward": 0.1}).health == "ok"  # the first process logged a KL
