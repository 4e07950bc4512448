"""Identity: an id is given once, and is the same wherever it is derived."""

from __future__ import annotations

import math

import pytest
from batches import event

import klarm
from klarm.journal import identity
from klarm.journal.identity import new_id, recorded_ids


def test_a_run_never_gives_an_id_that_it_has(
    monkeypatch: pytest.MonkeyPatch, one_detector: None
) -> None:
    """Not even one of an earlier process, and if chance has it three times in a row."""
    dice = iter([b"aaaaa", b"aaaaa", b"aaaaa", b"bbbbb", b"bbbbb", b"ccccc"])
    monkeypatch.setattr(identity.os, "urandom", lambda _: next(dice))
    opened: list[str] = []
    for step in range(0, 60, 30):
        monitor = klarm.init("a", console=False, incidents={"reopen_within": 0})
        for at in range(step, step + 30):
            monitor.log({"kl": math.nan if at in (3, 33, 57) else 0.1}, at)
        opened += [incident.id for incident in monitor.incidents if incident.id not in opened]
        klarm.finish()
    assert len(set(opened)) == 3


def test_ids_look_alike() -> None:
    """`k` and seven characters that nobody mistakes for each other."""
    assert all(len(id_) == 8 and id_[0] == "k" for id_ in (new_id() for _ in range(100)))
    assert not {*"0189"} & {*"".join(new_id() for _ in range(100))}


def test_a_replay_gives_the_ids_of_the_journal() -> None:
    """In order where one place has several; a number where the journal has none."""
    ids = recorded_ids(
        [
            event("opened", 1, 3, id="kaaaaaaa"),
            event("resolved", 1, 3, id="kaaaaaaa"),
            event("opened", 2, 3, id="kbbbbbbb"),
        ]
    )
    found = [ids("kl", 3, 3), ids("kl", 3, 3), ids("kl", 3, 3), ids("loss", 3, 3)]
    assert found == ["kaaaaaaa", "kbbbbbbb", "k0000001", "k0000002"]
