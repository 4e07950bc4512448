"""The last good checkpoint is kept even if the trainer deletes it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from example_events import example_event
from klarm.integrations.kept_checkpoint import FOLDER, KeptCheckpoints
from klarm.types import Event, EventKind

WEIGHTS = b"weights" * 1000


def event(kind: EventKind, id_: str = "k1", checkpoint: Path | None = None) -> Event:
    """Return an event of a critical incident."""
    where = "" if checkpoint is None else str(checkpoint.absolute())
    return example_event(kind, severity="critical", id=id_, checkpoint=where)


def happens(kept: KeptCheckpoints, *events: Event) -> None:
    """Pass the events of a step, and let them take effect."""
    for one in events:
        kept.on_event(one)
    kept.catch_up()


def saved(step: int) -> Path:
    """Save as a Hugging Face trainer does."""
    folder = Path(f"out/checkpoint-{step}")
    (folder / "shards").mkdir(parents=True)
    (folder / "model.bin").write_bytes(WEIGHTS)
    (folder / "shards/0.bin").write_bytes(WEIGHTS)
    return folder


def test_it_is_restored_after_each_save_until_the_incident_is_over() -> None:
    """Then the trainer may delete it again, and no file of klarm is left."""
    kept, good = KeptCheckpoints(Path("out"), print), saved(10)
    happens(kept, event("opened", checkpoint=good))
    for step in (20, 30):
        saved(step)
        shutil.rmtree(good)
        kept.restore()
        assert (good / "model.bin").read_bytes() == WEIGHTS
        assert (good / "shards/0.bin").read_bytes() == WEIGHTS
    happens(kept, event("resolved"))
    assert good.is_dir()
    assert not (Path("out") / FOLDER).exists()
    shutil.rmtree(good)
    kept.restore()
    assert not good.exists()


def test_it_costs_no_space() -> None:
    """Files are linked, not copied."""
    kept, good = KeptCheckpoints(Path("out"), print), saved(10)
    happens(kept, event("opened", checkpoint=good))
    assert (good / "model.bin").stat().st_nlink == 2


def test_a_trainer_never_mistakes_it_for_its_own_checkpoint() -> None:
    """Trainers delete only checkpoint-* in their own folder."""
    kept = KeptCheckpoints(Path("out"), print)
    happens(kept, event("opened", checkpoint=saved(10)))
    assert [path.name for path in Path("out").glob("checkpoint-*")] == ["checkpoint-10"]


def test_a_new_process_keeps_what_open_incidents_need() -> None:
    """It releases the others, because their incidents may have ended meanwhile."""
    kept = KeptCheckpoints(Path("out"), print)
    happens(kept, event("opened", "open", saved(10)))
    happens(kept, event("opened", "over", saved(20)))
    again = KeptCheckpoints(Path("out"), print)
    again.take_up({"open"})
    for step in (10, 20):
        shutil.rmtree(f"out/checkpoint-{step}")
    again.restore()
    assert [path.name for path in Path("out").glob("checkpoint-*")] == ["checkpoint-10"]


def test_without_hard_links_it_reports_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some network file systems have no hard links. No partial copy is left."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(95, os.strerror(95))

    monkeypatch.setattr(os, "link", refuse)
    said: list[str] = []
    kept, good = KeptCheckpoints(Path("out"), said.append), saved(10)
    happens(kept, event("opened", checkpoint=good))
    (line,) = said
    assert "cannot be kept" in line
    assert "Copy it if you want to go back to it." in line
    assert [path.name for path in Path("out").rglob("*.bin")] == ["model.bin", "0.bin"]


def test_a_checkpoint_that_is_elsewhere_is_left_alone() -> None:
    """It may be in a bucket, in another folder, or missing."""
    said: list[str] = []
    kept = KeptCheckpoints(Path("out"), said.append)
    for place in (None, Path("elsewhere/checkpoint-10"), Path("out/checkpoint-99")):
        happens(kept, event("opened", checkpoint=place))
    kept.restore()
    assert said == []
    assert not Path("out").exists()
