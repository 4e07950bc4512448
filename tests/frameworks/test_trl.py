"""klarm within real TRL runs: tiny models, trained on the CPU."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import tiny_trl
import torch
from transformers import Qwen2ForCausalLM, TrainerCallback
from trl import GRPOTrainer

import klarm
from full_disk import FILL_UP
from klarm import boundary
from klarm.detectors.kl_explosion import KLExplosionDetector
from klarm.integrations.trl import KlarmCallback
from recorded_lines import lines_of

ROOT = Path(__file__).parents[2]
JUMP = 40
FEW = 12  # steps of a run that is only to end well


class Run(NamedTuple):
    """A run that is over."""

    trainer: GRPOTrainer
    folder: Path

    def records(self, *kinds: str) -> list[dict[str, Any]]:
        """Return the journal's records of these types."""
        return lines_of(self.folder / "klarm_runs" / "run", *kinds)

    def incidents(self, signal_: str) -> list[dict[str, Any]]:
        """Return the events of incidents that opened on a signal."""
        opened = [event for event in self.records("event") if event["event"] == "opened"]
        return [event for event in opened if event["signal"] == signal_]


def train(
    reference: Path,
    folder: Path,
    steps: int,
    *callbacks: TrainerCallback,
    klarm: dict[str, Any] | None = None,
    resume: str | None = None,
    **settings: Any,
) -> Run:
    """Train with klarm's callback, which records below the folder, and others."""
    watching = KlarmCallback(**{"run": "run", "dir": str(folder / "klarm_runs"), **(klarm or {})})
    trainer = tiny_trl.make_trainer(reference, folder, steps, [watching, *callbacks], **settings)
    trainer.train(resume_from_checkpoint=resume)
    return Run(trainer, folder)


def train_past_jump(
    reference: Path,
    folder: Path,
    *callbacks: TrainerCallback,
    klarm: dict[str, Any] | None = None,
    **settings: Any,
) -> Run:
    """Train until 20 steps after a jump of the learning rate; a critical incident saves."""
    jump = tiny_trl.Learning(jump_at=JUMP)
    asked = {"on_critical": "checkpoint", **(klarm or {})}
    return train(reference, folder, JUMP + 20, jump, *callbacks, klarm=asked, **settings)


@pytest.fixture(scope="session")
def plain(reference: Path, tmp_path_factory: pytest.TempPathFactory) -> GRPOTrainer:
    """A few steps without klarm."""
    trainer = tiny_trl.make_trainer(reference, tmp_path_factory.mktemp("plain"), FEW, [])
    trainer.train()
    return trainer


@pytest.fixture(scope="session")
def stopped(reference: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run whose learning rate jumps, which klarm may stop; it logs every tenth step by itself."""
    return train(
        reference,
        tmp_path_factory.mktemp("stopped"),
        JUMP + 40,
        tiny_trl.Learning(jump_at=JUMP),
        klarm={"on_critical": "stop"},
        logging_steps=10,
    )


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_healthy_run_opens_no_kl_incident(reference: Path, tmp_path: Path, seed: int) -> None:
    """Whatever the seed."""
    run = train(reference, tmp_path, 150, seed=seed)
    assert len(run.records("step")) >= 150
    assert run.incidents("kl") == []


def test_a_learning_rate_that_jumps_opens_a_kl_incident_soon(stopped: Run) -> None:
    """Within 15 steps, and klarm sees what was changed."""
    (opened,) = stopped.incidents("kl")
    assert JUMP < opened["step"] <= JUMP + 15
    assert opened["pattern"] == "learning rate raised"


def test_every_step_is_seen_though_the_trainer_logs_every_tenth(stopped: Run) -> None:
    """The summary at the end repeats the last step, and is none of its own."""
    last = stopped.trainer.state.global_step
    steps = [record["step"] for record in stopped.records("step")]
    assert sorted(set(steps)) == list(range(1, last + 1))
    (finish,) = stopped.records("finish")
    assert finish["steps"] == last


def test_on_critical_stop_leaves_a_checkpoint_and_stops_there(stopped: Run) -> None:
    """At the very step at which the incident became critical."""
    critical = [e for e in stopped.records("event") if e["severity"] == "critical"]
    last = stopped.trainer.state.global_step
    assert critical[0]["step"] == last
    (checkpoint,) = stopped.records("checkpoint")
    assert checkpoint["step"] == last
    assert Path(checkpoint["path"]) == stopped.folder / f"checkpoint-{last}"
    assert (Path(checkpoint["path"]) / "trainer_state.json").is_file()


def test_a_run_that_was_stopped_can_be_taken_up(
    stopped: Run, reference: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The incident is still open then, which is said, and does not stop the run again at once.

    In a new folder, whose journal takes in what the checkpoint has of the steps before.
    """
    last = stopped.trainer.state.global_step
    run = train(
        reference,
        tmp_path,
        last + 3,
        klarm={"on_critical": "stop"},
        resume=str(stopped.folder / f"checkpoint-{last}"),
    )
    assert run.trainer.state.global_step == last + 3
    (resumed,) = run.records("resume")
    assert resumed["step"] == last + 1
    steps = [record["step"] for record in run.records("step")]
    assert sorted(set(steps)) == list(range(1, last + 4))
    assert [event["reason"] for event in run.incidents("kl")] == ["confirmed"]
    assert "is still open and is not acted upon again for 20 rows" in capsys.readouterr().err


def test_on_critical_checkpoint_saves_once_and_goes_on(
    reference: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """However long the incident lasts; the last checkpoint from before it is named."""
    off = {"enabled": False}
    run = train_past_jump(
        reference,
        tmp_path,
        klarm={"gradient_norm_spike": off, "learning_rate_jump": off},
        save_strategy="steps",
        save_steps=JUMP,
    )
    assert run.trainer.state.global_step == JUMP + 20
    opened, *later = [e for e in run.records("event") if e["severity"] == "critical"]
    assert opened["signal"] == "kl"
    assert {e["id"] for e in later} <= {opened["id"]}
    saved = {record["step"]: record["path"] for record in run.records("checkpoint")}
    assert list(saved) == [JUMP, opened["step"], JUMP + 20]
    assert opened["checkpoint"] == saved[JUMP]
    assert (
        f"klarm: kl is critical: training goes on, with a checkpoint at {saved[opened['step']]}, "
        f"at step {opened['step']}; last good checkpoint: {saved[JUMP]}\n"
    ) in capsys.readouterr().err


def test_the_last_good_checkpoint_survives_a_limit_of_one(
    reference: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The trainer deletes it with the very save that klarm asks for, and with each one after."""
    run = train_past_jump(
        reference, tmp_path, save_strategy="steps", save_steps=10, save_total_limit=1
    )
    opened, *_ = [e for e in run.records("event") if e["severity"] == "critical"]
    good = Path(opened["checkpoint"])
    assert good.name in ("checkpoint-30", "checkpoint-40")
    assert (good / "model.safetensors").is_file()
    assert f"last good checkpoint: {good}\n" in capsys.readouterr().err
    Qwen2ForCausalLM.from_pretrained(good)


class NoSaving(TrainerCallback):
    """Takes back that a checkpoint is to be saved."""

    def on_log(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        control.should_save = False


def test_a_checkpoint_is_called_saved_only_when_it_was(
    reference: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another callback may have taken the request back."""
    train_past_jump(reference, tmp_path, NoSaving())
    said = capsys.readouterr().err
    assert "training goes on, without a checkpoint, at step" in said
    assert "with a checkpoint at" not in said


def test_training_is_the_same_to_the_last_bit(
    plain: GRPOTrainer, reference: Path, tmp_path: Path
) -> None:
    """Every loss and every weight."""
    run = train(reference, tmp_path, FEW, logging_steps=1)
    assert tiny_trl.losses(run.trainer) == tiny_trl.losses(plain)
    weights = run.trainer.model.state_dict()
    assert all(torch.equal(weights[name], w) for name, w in plain.model.state_dict().items())


class SteppingDown(TrainerCallback):
    """Takes root's rights away for the callbacks between this one and its counterpart."""

    def __init__(self, user: int) -> None:
        self.user = user

    def on_train_begin(self, args, state, control, **kwargs):
        if os.getuid() == 0:
            os.seteuid(self.user)


def test_a_directory_that_cannot_be_written_does_not_disturb_training(
    plain: GRPOTrainer,
    reference: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The run is watched, and said not to be recorded."""
    (tmp_path / "readonly").mkdir(mode=0o555)
    monkeypatch.setenv("KLARM_DIR", str(tmp_path / "readonly"))
    callbacks = [SteppingDown(65534), KlarmCallback("run"), SteppingDown(0)]
    trainer = tiny_trl.make_trainer(reference, tmp_path, FEW, callbacks)
    try:
        trainer.train()
    finally:
        os.seteuid(os.getuid())
    assert tiny_trl.losses(trainer) == tiny_trl.losses(plain)
    assert "(Permission denied): the run is watched but not recorded" in capfd.readouterr().err


def test_a_full_disk_does_not_disturb_training(
    plain: GRPOTrainer, reference: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """It is full once the journal is open."""

    class Fill(TrainerCallback):  # type: ignore[misc]
        def on_step_begin(self, *_: Any, **__: Any) -> None:
            exec(FILL_UP)

    run = train(reference, tmp_path, FEW, Fill())
    assert tiny_trl.losses(run.trainer) == tiny_trl.losses(plain)
    assert capfd.readouterr().err.count("No space left on device") == 1


@pytest.fixture
def guard_as_in_production(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have failures kept from training, and not raised."""
    monkeypatch.setattr(boundary, "raise_failures", False)


@pytest.mark.usefixtures("guard_as_in_production")
def test_a_detector_that_fails_does_not_disturb_training(
    plain: GRPOTrainer,
    reference: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """It is said once."""
    monkeypatch.setattr(KLExplosionDetector, "update", lambda *_: 1 / 0)
    run = train(reference, tmp_path, FEW)
    assert tiny_trl.losses(run.trainer) == tiny_trl.losses(plain)
    assert len(run.records("step")) >= FEW
    said = capfd.readouterr().err
    assert said.count("internal error in detector kl_explosion") == 1
    assert said.count(f"{FEW} more times: ") == 1  # also with the row at the end, which has no KL


@pytest.mark.usefixtures("guard_as_in_production")
@pytest.mark.parametrize("hook", ["on_train_begin", "on_step_end", "on_log", "on_save"])
def test_a_hook_that_fails_does_not_disturb_training(
    plain: GRPOTrainer,
    reference: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    hook: str,
) -> None:
    """Here because the state of the trainer is not what klarm knows."""

    class Strange(KlarmCallback):
        pass

    def strange(self: KlarmCallback, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
        return getattr(KlarmCallback, hook)(self, None, None, None, **kwargs)

    setattr(Strange, hook, strange)
    callback = Strange("run", dir=str(tmp_path / "klarm_runs"))
    trainer = tiny_trl.make_trainer(
        reference, tmp_path, FEW, [callback], save_strategy="steps", save_steps=FEW
    )
    trainer.train()
    assert tiny_trl.losses(trainer) == tiny_trl.losses(plain)
    assert f"internal error in {hook}" in capfd.readouterr().err


class StrangeLogs(GRPOTrainer):
    """Logs words, None and a KL that became NaN, which newer TRL logs as None."""

    def log(self, logs: dict[str, Any], *args: Any) -> None:
        logs["note"], logs["nothing"], logs["entropy"] = "n/a", None, "unknown"
        if self.state.global_step == FEW - 2:
            self._metrics["train"]["kl"] = [float("nan")]
        super().log(logs, *args)


def test_words_and_none_do_not_disturb_training(
    plain: GRPOTrainer, reference: Path, tmp_path: Path
) -> None:
    """The only alarm is about the KL that is no number any more."""
    run = train(reference, tmp_path, FEW, trainer_class=StrangeLogs)
    assert tiny_trl.losses(run.trainer) == tiny_trl.losses(plain)
    (alert,) = run.records("alert")
    assert (alert["detector"], alert["step"]) == ("kl_explosion", FEW - 2)
    assert "NaN" in alert["message"]


def test_a_trainer_that_does_not_stop_is_said_to_go_on(
    reference: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Older TRL has trainers with loops of their own that never look at the request."""

    class Deaf(TrainerCallback):
        def on_log(self, args, state, control, **kwargs):
            control.should_training_stop = state.global_step >= args.max_steps

    stop = {"on_critical": "stop"}
    run = train(reference, tmp_path, FEW, Deaf(), trainer_class=StrangeLogs, klarm=stop)
    assert run.trainer.state.global_step == FEW
    said = capfd.readouterr().err
    assert said.count(f"although klarm asked it to stop at step {FEW - 2}") == 1


def test_rewards_in_every_fourth_row_and_evaluations_alarm_nobody(
    reference: Path, tmp_path: Path
) -> None:
    """Each step is counted once, and nothing is missed for lack of a row."""
    run = train(
        reference,
        tmp_path,
        64,
        num_iterations=4,
        eval_strategy="steps",
        eval_steps=8,
        per_device_eval_batch_size=16,
    )
    rows = [record["metrics"] for record in run.records("step")]
    assert sum("eval_reward" in row for row in rows) == 8
    assert sum("reward" in row for row in rows) == 16
    (finish,) = run.records("finish")
    assert finish["steps"] == 64
    assert [a for a in run.records("alert") if a["detector"] == "metric_lost"] == []


def test_without_a_kl_it_says_so_at_the_start(
    reference: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """And what to set."""
    train(reference, tmp_path, 1, beta=0.0)
    said = capfd.readouterr().err
    assert "there is no KL to watch: beta is 0 in GRPOConfig" in said
    assert "set beta=0.001 or more" in said


def test_report_to_klarm_needs_no_callback(reference: Path, tmp_path: Path) -> None:
    """The run is called as its output directory is."""
    trainer = tiny_trl.make_trainer(reference, tmp_path / "grpo", 2, [], report_to="klarm")
    trainer.train()
    steps = [record["step"] for record in lines_of(Path("klarm_runs/grpo"), "step")]
    assert sorted(set(steps)) == [1, 2]


def test_a_run_whose_training_raises_is_finished_at_exit(reference: Path, tmp_path: Path) -> None:
    """The trainer does not call its hook for the end then: training has not ended well."""

    class Failing(TrainerCallback):
        def on_step_begin(self, args, state, control, **kwargs):
            if state.global_step == 2:
                raise RuntimeError("out of memory")

    with pytest.raises(RuntimeError, match="out of memory"):
        train(reference, tmp_path, FEW, Failing())
    klarm.finish()  # what the end of the process does
    (finish,) = lines_of(tmp_path / "klarm_runs" / "run", "finish")
    assert (finish["steps"], finish["outcome"]) == (2, "stopped")


@pytest.mark.parametrize(
    ("fails_with", "code", "expected"),
    [
        ("RuntimeError", 1, ("crashed", "RuntimeError: at step 2")),
        ("KeyboardInterrupt", -signal.SIGINT, ("interrupted", "KeyboardInterrupt: at step 2")),
        ("SystemExit", 1, ("stopped", "")),
    ],
)
def test_a_training_that_fails_is_reported_as_what_it_was(
    reference: Path, tmp_path: Path, fails_with: str, code: int, expected: tuple[str, str]
) -> None:
    """The process ends as it would without klarm."""
    klarm = {"run": "run", "dir": str(tmp_path / "klarm_runs")}
    done = run_script(
        reference=str(reference), folder=str(tmp_path), steps=4, klarm=klarm, fails_with=fails_with
    )
    assert done.returncode == code
    (finish,) = lines_of(tmp_path / "klarm_runs" / "run", "finish")
    assert (finish["outcome"], finish.get("error", "")) == expected


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            {"on_critical": "stopp"},
            "on_critical is 'stopp': it must be",
        ),
        ({"kl_explosion": {"sigma": 3}}, r"KlarmCallback\(\): kl_explosion.sigma is unknown"),
        ({"run": "a/b"}, "cannot be the name of a folder"),
    ],
)
def test_a_wrong_setting_raises_before_training(wrong: dict[str, Any], message: str) -> None:
    """When the callback is made."""
    with pytest.raises(klarm.ConfigError, match=message):
        KlarmCallback(**wrong)


def run_script(*launcher: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run tiny_trl.py in processes of its own."""
    return subprocess.run(
        [
            sys.executable,
            *launcher,
            str(ROOT / "tests/frameworks/tiny_trl.py"),
            json.dumps(options),
        ],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT / 'recordings'}"},
    )


def test_a_run_that_was_killed_goes_on_from_its_checkpoint(reference: Path, tmp_path: Path) -> None:
    """Killed at 8 with a checkpoint at 5: steps 6 to 8 are rolled back, and repeated."""
    options = {
        "reference": str(reference),
        "folder": str(tmp_path),
        "steps": 10,
        "save_strategy": "steps",
        "save_steps": 5,
        "klarm": {"run": "run", "dir": str(tmp_path / "klarm_runs")},
    }
    killed = run_script(**options, kill_at=8)
    assert killed.returncode == -signal.SIGKILL
    resumed = run_script(**options, resume=True)
    assert resumed.returncode == 0, resumed.stderr
    assert "run run continues at step 6; steps 6 to 8 are rolled back" in resumed.stderr
    assert "internal error" not in killed.stderr + resumed.stderr
    lines = lines_of(tmp_path / "klarm_runs" / "run", "step", "resume", "checkpoint")
    recorded = [(line["type"], line["step"]) for line in lines]
    before = [("step", step) for step in (1, 2, 3, 4, 5, 6, 7, 8)]
    before.insert(5, ("checkpoint", 5))
    after = [("step", step) for step in (6, 7, 8, 9, 10)]
    assert recorded == [*before, ("resume", 6), *after, ("checkpoint", 10), ("step", 10)]


def run_two_ranks(reference: Path, folder: Path, **options: Any) -> tuple[str, list[Any]]:
    """Train a run that klarm stops; return what was said and what came of it on each rank."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node=2", f"--master-port={port}"]
    done = run_script(
        *launcher,
        reference=str(reference),
        folder=str(folder),
        steps=JUMP + 40,
        jump_at=JUMP,
        klarm={"run": "run", "dir": str(folder / "klarm_runs"), "on_critical": "stop"},
        ddp_backend="gloo",
        logging_steps=10,
        **options,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    ranks = [json.loads((folder / f"rank{rank}.json").read_text()) for rank in (0, 1)]
    assert (folder / f"checkpoint-{ranks[0]['step']}").is_dir()
    return done.stderr, ranks


def test_two_ranks_stop_together_and_one_of_them_records(reference: Path, tmp_path: Path) -> None:
    """Each decides by itself, from the same numbers."""
    said, ranks = run_two_ranks(reference, tmp_path)
    assert ranks[0] == ranks[1]
    assert JUMP < ranks[0]["step"] < JUMP + 40
    assert len(lines_of(tmp_path / "klarm_runs" / "run", "run")) == 1
    assert said.count("is recorded in") == 1


def test_a_failure_on_rank_0_leaves_nobody_waiting(reference: Path, tmp_path: Path) -> None:
    """It cannot record, but decides as the other does."""
    said, ranks = run_two_ranks(reference, tmp_path, broken="0")
    assert "internal error in _start_recording" in said
    assert ranks[0] == ranks[1]
    assert JUMP < ranks[0]["step"] < JUMP + 40
