"""W&B: a real offline run, what klarm sees of it and what it sees of klarm."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import offline_wandb
import pytest
import wandb

import klarm
import klarm.integrations.wandb
from klarm import boundary
from klarm.integrations.wandb import watch
from recorded_lines import lines_of


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have every run stay in this folder, and end it afterwards."""
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    yield
    if wandb.run is not None:
        wandb.finish()


def start(mode: str = "offline") -> Any:
    # The process that writes it has a working directory of its own.
    return wandb.init(project="p", dir=Path.cwd(), mode=mode)


def rows(run: str = "a") -> list[tuple[int, dict[str, float]]]:
    return [(step["step"], step["metrics"]) for step in lines_of(run, "step")]


@pytest.mark.parametrize("early", [True, False], ids=["before init", "after init"])
def test_what_is_logged_to_wandb_is_watched_under_klarms_names(early: bool) -> None:
    """Through wandb.log and run.log alike, whenever watch is called."""
    if early:
        watch("a")
    run = start()
    if not early:
        watch("a")
    wandb.log({"train/kl": 0.1, "actor/pg_loss": 1.5})
    run.log({"train/kl": 0.2})
    assert rows() == [(0, {"kl": 0.1, "loss": 1.5}), (1, {"kl": 0.2})]


def test_steps_are_counted_as_wandb_counts_them() -> None:
    """Given, counted on, held back by commit=False, and dropped where W&B drops them."""
    watch("a")
    run = start()
    run.log({"kl": 0.0})
    run.log({"kl": 0.1}, commit=False)
    run.log({"reward": 1.0})
    run.log({"kl": 0.2}, step=10)
    run.log({"reward": 2.0}, step=10)
    run.log({"kl": 99.0}, step=4)
    run.log({"loss": 3.0})
    run.log({"kl": 0.3}, step=20, commit=True)
    assert run.step == 21
    run.log({"kl": 0.4})
    assert rows() == [
        (0, {"kl": 0.0}),
        (1, {"kl": 0.1}),
        (1, {"reward": 1.0}),
        (10, {"kl": 0.2}),
        (10, {"reward": 2.0}),
        (10, {"loss": 3.0}),
        (20, {"kl": 0.3}),
        (21, {"kl": 0.4}),
    ]
    assert lines_of("a", "resume") == []


def test_watch_in_the_middle_of_a_run_goes_on_at_its_step() -> None:
    """As in a notebook."""
    run = start()
    for _ in range(5):
        wandb.log({"kl": 0.1})
    watch("a")
    wandb.log({"kl": 0.2})
    assert rows() == [(5, {"kl": 0.2})]
    assert run.step == 6


def test_a_metric_that_everything_is_plotted_over_is_the_step() -> None:
    """As Hugging Face trainers define it; a row without it belongs to the last one."""
    watch("a")
    start()
    wandb.define_metric("train/global_step")
    wandb.define_metric("*", step_metric="train/global_step", step_sync=True)
    wandb.log({"train/kl": 0.1, "train/global_step": 0})
    wandb.log({"train/kl": 0.2, "train/global_step": 10})
    wandb.log({"eval/score": 0.5})
    wandb.log({"train/kl": 0.3, "train/global_step": 20})
    assert [step for step, _ in rows()] == [0, 10, 10, 20]


def test_what_is_no_number_is_passed_over() -> None:
    """Pictures, histograms, tables and text are W&B's; dicts in dicts are numbers after all."""
    watch("a")
    start()
    wandb.log(
        {
            "kl": np.float32(0.5),
            "histogram": wandb.Histogram([1, 2, 3]),
            "picture": wandb.Image(np.zeros((4, 4, 3), dtype=np.uint8)),
            "table": wandb.Table(columns=["a"], data=[[1]]),
            "text": "hello",
            "nested": {"a": 1, "b": {"c": 2.0}},
        }
    )
    assert rows() == [(0, {"kl": 0.5, "nested/a": 1.0, "nested/b/c": 2.0})]


def test_the_callers_side_is_as_without_klarm() -> None:
    """What comes back, what is raised, and the dict that was given."""
    watch("a")
    run = start()
    given = {"kl": 0.1, "nested": {"a": 1}}
    assert wandb.log(given) is None
    assert given == {"kl": 0.1, "nested": {"a": 1}}
    with pytest.raises(TypeError, match="must be passed a dictionary"):
        wandb.log(3)
    with pytest.raises(TypeError, match="must be strings"):
        wandb.log({3: 4.0})
    wandb.finish()
    with pytest.raises(wandb.errors.UsageError):
        run.log({"kl": 0.2})
    assert len(rows()) == 1


def test_an_incident_is_an_alert_in_wandb() -> None:
    """In the file of the offline run, with what to do; its end is no alert."""
    watch("a", alert=True, console=False)
    start()
    wandb.log({"kl": math.nan})
    for _ in range(25):
        wandb.log({"kl": 0.1})
    (opened, resolved) = lines_of("a", "event")
    assert (opened["event"], resolved["event"]) == ("opened", "resolved")
    content = offline_wandb.read_finished()
    assert b"klarm: critical on kl (opened, incident 1)" in content
    assert opened["remedy"].encode() in content
    assert b"resolved" not in content


def test_without_being_asked_klarm_writes_nothing_to_wandb() -> None:
    """Alerts of W&B may page people."""
    watch("a", console=False)
    start()
    wandb.log({"kl": math.nan})
    assert lines_of("a", "event")
    assert b"klarm: critical" not in offline_wandb.read_finished()


def test_another_run_is_not_mixed_in(capsys: pytest.CaptureFixture[str]) -> None:
    """It is said once; watch again watches it."""
    watch("a")
    start()
    wandb.log({"kl": 0.1})
    wandb.finish()
    start()
    wandb.log({"kl": 0.2})
    wandb.log({"kl": 0.3})
    assert rows() == [(0, {"kl": 0.1})]
    assert capsys.readouterr().err.count("is not watched") == 1
    watch("b")
    wandb.log({"kl": 0.4})
    assert rows("b") == [(2, {"kl": 0.4})]


def test_a_disabled_wandb_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its log does nothing, and klarm would be silent for no reason that can be seen."""
    monkeypatch.setenv("WANDB_MODE", "disabled")
    watch("a")
    assert "W&B is disabled" in capsys.readouterr().err
    monkeypatch.delenv("WANDB_MODE")
    start(mode="disabled")
    watch("b")
    assert "W&B is disabled" in capsys.readouterr().err
    assert wandb.log({"kl": 0.1}) is None


@pytest.mark.usefixtures("broken_detector")
def test_a_failure_of_ours_leaves_wandb_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a detector or in the mirror itself: W&B has every step, and it is said once."""
    watch("a")
    run = start()
    for step in range(3):
        wandb.log({"kl": 0.1}, step=step)
    monkeypatch.setattr("klarm.integrations.wandb.to_number", None)
    for step in range(3, 6):
        assert wandb.log({"kl": 0.1}, step=step, commit=True) is None
    assert run.step == 6
    said = capsys.readouterr().err
    assert said.count("broken detector") == 1
    assert said.count("internal error in _pass_on") == 1


def test_an_alert_that_fails_stops_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """W&B's run is over, klarm's is not."""
    monkeypatch.setattr(boundary, "raise_failures", False)
    monitor = watch("a", alert=True)
    start()
    wandb.log({"kl": 0.1})
    wandb.finish()
    monitor.log({"kl": math.nan})
    assert [event["event"] for event in lines_of("a", "event")] == ["opened"]
    assert "UsageError" in capsys.readouterr().err


def test_our_file_is_not_taken_for_the_package() -> None:
    """Both are called wandb."""
    assert klarm.integrations.wandb.__file__ != wandb.__file__
    assert hasattr(wandb, "init")
