"""RLlib: every iteration is watched in the algorithm's process, alone or under Tune."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray
import torch
from ray import tune
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.appo import APPOConfig
from ray.rllib.algorithms.ppo import PPO, PPOConfig
from ray.rllib.algorithms.sac import SACConfig

import klarm
from klarm import boundary
from klarm.integrations.rllib import KlarmCallback
from recorded_lines import lines_of

SANE = {"lr": 3e-4, "minibatch_size": 128, "num_epochs": 4}
RECKLESS = {"lr": 0.1, "minibatch_size": 32, "num_epochs": 8}


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Tiny networks are slower on several."""
    torch.set_num_threads(1)


@pytest.fixture(autouse=True, scope="module")
def cluster() -> Iterator[None]:
    """Ray on this machine, which RLlib would start by itself and leave running."""
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def ppo(callback: Any = None, training: Mapping[str, Any] = SANE) -> PPOConfig:
    config = (
        PPOConfig()
        .environment("CartPole-v1")
        .env_runners(num_env_runners=0)
        .rl_module(model_config={"fcnet_hiddens": [32, 32]})
        .debugging(seed=0)
        .training(train_batch_size=256, **training)
    )
    return config if callback is None else config.callbacks(callback)


def train(config: Any, iterations: int) -> tuple[Algorithm, list[dict[str, Any]]]:
    """Train until `done`, as the docs tell."""
    algorithm = config.build_algo()
    results = []
    for _ in range(iterations):
        results.append(algorithm.train())
        if results[-1]["done"]:
            break
    return algorithm, results


def weights(algorithm: Algorithm) -> dict[str, np.ndarray]:
    state = algorithm.get_module().get_state()
    return {name: np.asarray(value) for name, value in state.items()}


def test_a_sane_run_is_watched_and_learns_as_it_would_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Every iteration is a row, nothing is alarmed about, and the weights are the same."""
    alone, _ = train(ppo(), 3)
    watched, results = train(ppo(KlarmCallback.with_settings("sane")), 3)
    ours, theirs = weights(watched), weights(alone)
    assert ours.keys() == theirs.keys()
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours)
    rows = lines_of("sane", "step")
    assert [row["step"] for row in rows] == [1, 2, 3]
    for row, result in zip(rows, results, strict=True):
        learner = result["learners"]["default_policy"]
        assert row["metrics"]["kl_old"] == pytest.approx(learner["mean_kl_loss"])
        assert row["metrics"]["entropy"] == pytest.approx(learner["entropy"])
        assert row["metrics"]["reward"] == result["env_runners"]["episode_return_mean"]
        assert row["metrics"]["critic_loss"] == pytest.approx(learner["vf_loss"])
        assert row["metrics"]["explained_variance"] == pytest.approx(learner["vf_explained_var"])
    assert lines_of("sane", "event") == []
    klarm.finish()
    source = "kl_old ← learners/default_policy/mean_kl_loss (old policy, exact, per action)"
    assert source in capsys.readouterr().err


def test_a_reckless_run_is_stopped_and_saved(capsys: pytest.CaptureFixture[str]) -> None:
    """It says that it is done, and the algorithm can be had back from the checkpoint.

    What stopped it is still open then, and does not stop it again at once.
    """
    callback = KlarmCallback.with_settings("reckless", on_critical="stop")
    algorithm, results = train(ppo(callback, RECKLESS), 15)
    (opened,) = lines_of("reckless", "event")
    assert (opened["signal"], opened["severity"]) == ("kl", "critical")
    assert len(results) == opened["step"] < 15
    (saved,) = lines_of("reckless", "checkpoint")
    path = Path("klarm_runs/reckless/checkpoints").absolute() / f"critical-{len(results)}"
    assert saved["path"] == str(path)
    klarm.finish()
    again = Algorithm.from_checkpoint(str(path))
    ours, theirs = weights(again), weights(algorithm)
    assert all(np.array_equal(ours[name], theirs[name]) for name in theirs)
    assert not again.train()["done"]
    assert len(lines_of("reckless", "checkpoint")) == 1
    said = capsys.readouterr().err
    assert f"training stops, with a checkpoint at {path}, at step {opened['step']}\n" in said
    assert "is still open and is not acted upon again for 20 rows" in said


def test_a_checkpoint_is_noticed_however_it_is_saved(tmp_path: Path) -> None:
    """By `save` or `save_to_path`; RLlib tells a callback of neither."""
    algorithm, _ = train(ppo(KlarmCallback.with_settings("saved")), 1)
    algorithm.save(str(tmp_path / "first"))
    algorithm.train()
    algorithm.save_to_path(tmp_path / "second")
    other, _ = train(ppo(), 1)
    other.save_to_path(tmp_path / "of-another")
    noticed = [(saved["step"], saved["path"]) for saved in lines_of("saved", "checkpoint")]
    assert noticed == [
        (1, str(tmp_path / "first")),
        (2, str(tmp_path / "second")),
    ]
    assert Algorithm.from_checkpoint(str(noticed[0][1])).training_iteration == 1


def test_an_iteration_without_an_update_is_no_news_of_the_learner() -> None:
    """APPO learns beside the sampling: what it logs then are means over nothing, which are NaN."""
    algorithm, (result,) = train(ppo(KlarmCallback.with_settings("idle")), 1)
    idle = dict.fromkeys(result["learners"]["default_policy"], float("nan"))
    result["learners"]["default_policy"] = idle
    for result["training_iteration"] in range(2, 5):
        algorithm.callbacks[0].on_train_result(algorithm=algorithm, result=result)
    rows = lines_of("idle", "step")
    assert [row["step"] for row in rows] == [1, 2, 3, 4]
    assert "entropy" in rows[0]["metrics"]
    assert "reward" in rows[3]["metrics"]
    assert not any("learners" in name or name == "entropy" for name in rows[3]["metrics"])
    assert lines_of("idle", "alert") == []


def test_sac_and_appo_are_watched_by_the_losses_they_have() -> None:
    """SAC has a critic of Q values and no entropy; APPO has no explained variance."""
    sac = SACConfig().environment("Pendulum-v1").env_runners(num_env_runners=0)
    sac = sac.training(num_steps_sampled_before_learning_starts=64, train_batch_size_per_learner=32)
    appo = APPOConfig().environment("CartPole-v1").env_runners(num_env_runners=0)
    appo = appo.training(train_batch_size_per_learner=100)
    for name, config in (("sac", sac), ("appo", appo)):
        algorithm, _ = train(config.callbacks(KlarmCallback.with_settings(name)), 3)
        algorithm.stop()
        klarm.finish()
        logged = {metric for row in lines_of(name, "step") for metric in row["metrics"]}
        assert {"loss", "actor_loss", "critic_loss"} <= logged
        assert "explained_variance" not in logged
        assert lines_of(name, "alert") == []


def test_a_kl_that_is_not_measured_is_not_watched() -> None:
    """Without the KL loss RLlib logs 0, which would look like the safest run there is."""
    train(ppo(KlarmCallback.with_settings("no-kl"), {**SANE, "use_kl_loss": False}), 1)
    (row,) = lines_of("no-kl", "step")
    assert "kl_old" not in row["metrics"]
    assert "entropy" in row["metrics"]


def test_settings_travel_to_where_the_algorithm_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is pickled holds klarm.yaml as it was read here, and starts nothing when it is made."""
    Path("klarm.yaml").write_text("trust_region:\n  max_step_nats: 0.25\n")
    make = pickle.loads(pickle.dumps(KlarmCallback.with_settings("far", on_critical="stop")))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    callback = make()
    assert isinstance(callback, KlarmCallback)
    assert callback.monitor is None
    assert not (tmp_path / "klarm_runs").exists()

    callback.on_algorithm_init(algorithm=None)
    assert (tmp_path / "klarm_runs" / "far" / "journal.jsonl").exists()
    (detector,) = [d for d in callback.monitor.detectors if d.name == "trust_region"]
    assert detector.max_step_nats == 0.25


def test_a_secret_given_as_text_reaches_the_channel_in_the_same_process() -> None:
    """The run is started from the configuration, not from its printed form without secrets."""
    hook = {"type": "webhook", "url": "http://127.0.0.1:9/hook", "bearer_token": "hunter2-hunter2"}
    callback = KlarmCallback.with_settings("told", channels={"ops": hook})()
    callback.on_algorithm_init(algorithm=None)
    assert callback._config.channels()[0].channel.bearer_token.reveal() == "hunter2-hunter2"


def test_a_secret_given_as_text_costs_its_channel_in_another_process(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A pickle does not hold it. The run is watched all the same, and klarm says what is off."""
    channels = {
        "ops": {"type": "webhook", "url": "http://127.0.0.1:9/hook", "bearer_token": "hunter2"},
        "desk": {"type": "desktop"},
    }
    make = KlarmCallback.with_settings("travelled", channels=channels)
    pickled = pickle.dumps(make)
    assert b"hunter2" not in pickled
    callback = pickle.loads(pickled)()
    callback.on_algorithm_init(algorithm=None)
    assert callback.monitor is not None
    run_line = Path("klarm_runs/travelled/journal.jsonl").read_text().splitlines()[0]
    assert list(json.loads(run_line)["config"]["channels"]) == ["desk"]
    said = capsys.readouterr().err
    assert "channels.ops.url is plain text" in said
    assert "channels.ops.bearer_token is plain text" in said


def test_a_failure_of_klarm_does_not_end_the_training(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A directory that cannot be written, and a callback that cannot read the result."""
    monkeypatch.setattr(boundary, "raise_failures", False)
    Path("file").write_text("no folder can be made in here")
    monkeypatch.setenv("KLARM_DIR", "file/runs")

    def broken(*_: object) -> None:
        raise RuntimeError("the result cannot be read")

    monkeypatch.setattr(KlarmCallback, "_watched_module", broken)
    _, results = train(ppo(KlarmCallback), 2)
    assert [result["training_iteration"] for result in results] == [1, 2]
    said = capsys.readouterr().err
    assert "the run is watched but not recorded" in said
    assert said.count("the result cannot be read") == 1


def test_wrong_settings_raise_before_anything_is_built() -> None:
    """In the process of the user, not in a worker."""
    with pytest.raises(klarm.ConfigError, match=r"trust_region\.max_nats is unknown"):
        KlarmCallback.with_settings(trust_region={"max_nats": 1})
    with pytest.raises(klarm.ConfigError, match="on_critical is 'pause'"):
        KlarmCallback.with_settings(on_critical="pause")  # type: ignore[arg-type]


def test_tune_ends_a_reckless_trial(tmp_path: Path) -> None:
    """Each trial is a run of its own, though they have one name and live in other processes."""
    callback = KlarmCallback.with_settings("tuned", on_critical="stop", console=False)
    config = ppo(callback, RECKLESS).env_runners(num_env_runners=1)
    results = tune.Tuner(
        PPO,
        param_space=config,
        run_config=tune.RunConfig(
            storage_path=str(tmp_path / "ray"), stop={"training_iteration": 15}, verbose=0
        ),
    ).fit()
    (result,) = list(results)
    assert result.error is None
    assert result.metrics["done"] is True
    assert result.metrics["training_iteration"] < 15
    (run,) = [path.name for path in Path("klarm_runs").iterdir()]  # none from the env runner
    assert run.startswith("tuned-PPO_CartPole-v1_")
    assert result.metrics["trial_id"] in run
    rows = [row["step"] for row in lines_of(run, "step")]
    assert rows == list(range(1, result.metrics["training_iteration"] + 1))
    assert [event["signal"] for event in lines_of(run, "event")] == ["kl"]
    saved = [Path(record["path"]).name for record in lines_of(run, "checkpoint")]
    last = result.metrics["training_iteration"]
    assert saved == [f"critical-{last}", "checkpoint_000000"]  # Tune saves a trial that ends


def test_what_tune_saves_of_a_trial_is_noticed_where_it_is_kept(tmp_path: Path) -> None:
    """Not in the temporary folder that it is written to first."""
    callback = KlarmCallback.with_settings("kept", console=False)
    results = tune.Tuner(
        PPO,
        param_space=ppo(callback),
        run_config=tune.RunConfig(
            storage_path=str(tmp_path / "ray"),
            stop={"training_iteration": 4},
            checkpoint_config=tune.CheckpointConfig(checkpoint_frequency=2),
            verbose=0,
        ),
    ).fit()
    (result,) = list(results)
    (run,) = [path.name for path in Path("klarm_runs").iterdir()]
    noticed = [(saved["step"], saved["path"]) for saved in lines_of(run, "checkpoint")]
    kept = sorted(Path(result.path).glob("checkpoint_*"))
    assert noticed == list(zip((2, 4), map(str, kept), strict=True))
