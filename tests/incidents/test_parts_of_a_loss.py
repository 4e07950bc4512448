"""Runs that log the losses of actor and critic, and none as a whole: A2C, SAC, TD3."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from klarm.detectors import CATALOGUE
from klarm.journal.file import MemoryJournal
from klarm.monitor.monitor import Monitor
from klarm.types import Event
from klarm.wording import why

Row = dict[str, float]


def events(change: Callable[[Row, int], object], steps: int = 200) -> list[Event]:
    """Return what was said of an actor and a critic, in good health but for what is changed."""
    rng = random.Random(0)
    journal = MemoryJournal()
    watched = Monitor("a", [kind() for kind in CATALOGUE], journal, framework="sb3")
    for step in range(steps):
        row = {
            "train/actor_loss": rng.gauss(0.0, 0.3),
            "train/critic_loss": 2.0 * rng.lognormvariate(0.0, 0.2),
            "train/explained_variance": 0.9 + rng.gauss(0.0, 0.01),
            "reward": 50.0 + rng.gauss(0.0, 2.0),
        }
        change(row, step)
        watched.log(row, step)
    return [record for record in journal.records if isinstance(record, Event)]


def test_a_critic_that_stays_broken_has_not_recovered() -> None:
    """It is measured by its own loss, as no other is logged."""

    def explode(row: Row, step: int) -> None:
        if step >= 100:
            row["train/critic_loss"] *= 500.0

    opened, settled = events(explode)
    assert (opened.event, opened.metric, opened.detector) == (
        "opened",
        "critic_loss",
        "loss_explosion",
    )
    assert settled.reason == "settled"
    assert settled.level is not None
    assert settled.level > 500.0


@pytest.mark.parametrize("sign", [1.0, -1.0, 0.0], ids=["up", "down", "either"])
def test_an_actor_that_stays_broken_has_not_recovered(sign: float) -> None:
    """Its loss has either sign, so only its size tells whether it is back."""

    def explode(row: Row, step: int) -> None:
        if step >= 100:
            side = sign or (1.0 if step % 2 else -1.0)
            row["train/actor_loss"] = side * (500.0 + step % 7)

    opened, settled = events(explode)
    assert (opened.metric, opened.detector) == ("actor_loss", "loss_explosion")
    assert settled.reason == "settled"
    assert settled.level is not None
    assert settled.level * (sign or 1.0) > 499.0


def test_an_actor_whose_loss_is_small_again_has_recovered() -> None:
    """Whatever the sign of what it was and of what it is."""

    def explode(row: Row, step: int) -> None:
        if 100 <= step < 110:
            row["train/actor_loss"] = -500.0

    opened, resolved = events(explode)
    assert opened.event == "opened"
    assert (resolved.event, resolved.reason) == ("resolved", "recovered")


def test_a_loss_that_is_not_finite_is_explained_whichever_part_it_is() -> None:
    """As it is where the loss is logged as a whole."""
    for part in ("train/actor_loss", "train/critic_loss"):
        (opened, *_) = events(lambda row, step, key=part: step < 100 or row.update({key: math.nan}))
        assert (opened.signal, opened.pattern) == ("loss", "numbers broken")


def test_explained_variance_is_shown_beside_what_broke() -> None:
    """Nothing is alarmed about it by itself."""

    def forget(row: Row, step: int) -> None:
        if step >= 100:
            row["train/explained_variance"] = 0.1
        if step >= 110:
            row["train/critic_loss"] *= 500.0

    (opened, *_) = events(forget)
    assert "explained_variance ×0.11 since step 100" in opened.moved
    assert events(lambda row, step: row.update({"train/explained_variance": -step / 10})) == []


def test_an_explained_variance_that_is_undefined_is_not_broken() -> None:
    """SB3 logs NaN while all returns are alike."""

    def explode(row: Row, step: int) -> None:
        row["train/explained_variance"] = math.nan
        if step >= 100:
            row["train/critic_loss"] *= 500.0

    (opened, *_) = events(explode)
    assert "explained_variance" not in opened.moved


def test_a_loss_that_explodes_below_zero_is_shown_with_its_sign() -> None:
    """Its size counts for the rules, but people compare what they read with the curve."""

    def explode(row: Row, step: int) -> None:
        row["train/actor_loss"] = -0.3 - 0.01 * (step % 5)
        if 100 <= step < 150:
            row["train/actor_loss"] = -500.0 - step % 7

    opened, settled, resolved = events(explode)
    assert "are at least 502 in size, " in opened.message
    assert (opened.before, opened.peak) == (pytest.approx(-0.32), -506.0)
    assert opened.onset == 100
    assert why(settled) == (
        "Alerts have stopped, but actor_loss is still near -504, compared with -0.32 before, so "
        "the incident stays open."
    )
    assert why(resolved) == ("Recovered: actor_loss is back at -0.335 (-0.32 before the fall).")
