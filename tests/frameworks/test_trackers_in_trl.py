"""Trackers beside klarm in real TRL runs: what klarm reads from them, and what it tells them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import offline_wandb
import pytest
import tiny_trl
import trackio
import wandb
from trackio import context_vars
from trl import GRPOTrainer

from klarm.integrations.trackio import watch as watch_trackio
from klarm.integrations.trl import KlarmCallback
from klarm.integrations.wandb import watch as watch_wandb
from recorded_lines import lines_of

STEPS = 6


@pytest.fixture(autouse=True)
def local(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have every tracker stay in this folder, and end its run afterwards."""
    monkeypatch.setattr("trackio.sqlite_storage.TRACKIO_DIR", Path.cwd() / "trackio")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.setenv("WANDB_DIR", str(Path.cwd()))
    wandb.teardown()  # it would go on with the folder of an earlier test
    yield
    if context_vars.current_run.get() is not None:
        trackio.finish()
    if wandb.run is not None:
        wandb.finish()


def steps_with(run: str, metric: str) -> list[int]:
    return [row["step"] for row in lines_of(run, "step") if metric in row["metrics"]]


def test_a_row_logged_to_trackio_belongs_to_the_trainers_step(
    reference: Path, tmp_path: Path
) -> None:
    """TRL logs durations with a step, and metrics and evaluations without."""
    monitor = watch_trackio("a")
    evaluated = {"eval_strategy": "steps", "eval_steps": 2, "per_device_eval_batch_size": 16}
    tiny_trl.make_trainer(
        reference, tmp_path / "out", STEPS, [], report_to="trackio", run_name="one", **evaluated
    ).train()
    assert steps_with("a", "kl") == [1, 2, 3, 4, 5, 6]
    assert steps_with("a", "eval/reward") == [2, 4, 6]
    assert lines_of("a", "resume") == []
    monitor.finish()


def test_a_trackio_run_that_is_continued_by_name_keeps_the_trainers_steps(
    reference: Path, tmp_path: Path
) -> None:
    """Transformers continues a Trackio run of the same name, whose count of rows goes on."""
    for run in ("a", "b"):
        monitor = watch_trackio(run)
        tiny_trl.make_trainer(
            reference, tmp_path / run, STEPS, [], report_to="trackio", run_name="one"
        ).train()
        monitor.finish()
        assert steps_with(run, "kl") == [1, 2, 3, 4, 5, 6]
        assert lines_of(run, "resume") == []


class LosesItsKL(GRPOTrainer):
    """Logs a KL that is no number at one step."""

    def log(self, logs: dict[str, Any], *args: Any) -> None:
        if self.state.global_step == STEPS - 2:
            self._metrics["train"]["kl"] = [float("nan")]
        super().log(logs, *args)


def train_into_an_incident(reference: Path, folder: Path, **settings: Any) -> None:
    klarm = settings.pop("klarm", {})
    trainer = tiny_trl.make_trainer(
        reference,
        folder,
        STEPS,
        [KlarmCallback("a", **klarm)],
        trainer_class=LosesItsKL,
        **settings,
    )
    trainer.train()


def alerts_in_trackio() -> list[Any]:
    (file,) = Path("trackio").glob("huggingface*.db")
    with closing(sqlite3.connect(file)) as database:
        return database.execute("select title, level, step from alerts").fetchall()


TITLE = "klarm: critical on kl (opened, incident 1)"


def test_an_incident_is_an_alert_in_the_trackio_run_of_the_trainer(
    reference: Path, tmp_path: Path
) -> None:
    """Without a line more than the callback and report_to."""
    train_into_an_incident(reference, tmp_path / "out", report_to="trackio")
    (alert,) = alerts_in_trackio()
    assert alert[:2] == (TITLE, "error")


def test_an_incident_at_the_last_step_reaches_trackio(reference: Path, tmp_path: Path) -> None:
    """Transformers ends the Trackio run before it tells klarm that training is over."""
    stop = {"on_critical": "stop"}
    train_into_an_incident(reference, tmp_path / "out", report_to="trackio", klarm=stop)
    (alert,) = alerts_in_trackio()
    assert alert[0] == TITLE


def test_an_incident_is_an_alert_in_the_wandb_run_of_the_trainer(
    reference: Path, tmp_path: Path
) -> None:
    """Once, and its end is none."""
    train_into_an_incident(reference, tmp_path / "out", report_to="wandb")
    assert offline_wandb.read_finished().count(TITLE.encode()) == 1


def test_alerts_in_trackers_can_be_switched_off(reference: Path, tmp_path: Path) -> None:
    """Alerts of W&B may page people."""
    off = {"tracker_alerts": False}
    train_into_an_incident(reference, tmp_path / "out", report_to="wandb", klarm=off)
    assert lines_of("a", "event")
    assert TITLE.encode() not in offline_wandb.read_finished()


def test_alerts_that_watch_was_asked_for_are_sent_beside_the_callback(
    reference: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The callback's monitor takes the place of the other; one run, one alert."""
    watch_wandb("b", alert=True)
    wandb.init(project="p", dir=Path.cwd())
    train_into_an_incident(reference, tmp_path / "out", report_to="wandb")
    assert offline_wandb.read_finished().count(TITLE.encode()) == 1
    assert "after finish" not in capfd.readouterr().err


def test_alerts_that_watch_was_asked_for_need_no_report_to(reference: Path, tmp_path: Path) -> None:
    """Some scripts log to W&B by themselves."""
    watch_wandb("b", alert=True)
    wandb.init(project="p", dir=Path.cwd())
    train_into_an_incident(reference, tmp_path / "out")
    assert offline_wandb.read_finished().count(TITLE.encode()) == 1
