"""Stable-Baselines3: every update is watched, and the model learns as it would alone."""

from __future__ import annotations

import io
from pathlib import Path

import gymnasium as gym
import pytest
import torch
from loopback import Server
from stable_baselines3 import A2C, DQN, PPO, SAC, TD3
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import (
    BaseCallback,
    CallbackList,
    CheckpointCallback,
    EvalCallback,
)
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

import klarm
from klarm import boundary
from klarm.detectors import EntropyCollapseDetector, TrustRegionDetector
from klarm.integrations.sb3 import KlarmCallback
from recorded_lines import lines_of

SANE, RECKLESS = 3e-4, 0.05
ROLLOUT = 128  # timesteps: two environments, 64 steps each
EPOCHS = 4


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Tiny networks are slower on several."""
    torch.set_num_threads(1)


def ppo(learning_rate: float = SANE, seed: int = 0) -> PPO:
    return PPO(
        "MlpPolicy",
        make_vec_env("CartPole-v1", n_envs=2, seed=seed),
        learning_rate=learning_rate,
        n_steps=ROLLOUT // 2,
        n_epochs=EPOCHS,
        seed=seed,
        device="cpu",
    )


def steps(run: str) -> list[object]:
    return [row["step"] for row in lines_of(run, "step")]


def metrics(run: str) -> list[dict[str, float]]:
    return [row["metrics"] for row in lines_of(run, "step")]  # type: ignore[misc]


def weights(model: BaseAlgorithm) -> list[torch.Tensor]:
    return list(model.policy.state_dict().values())


def test_a_sane_run_opens_no_incident() -> None:
    """Neither on KL nor on anything else, while the policy learns."""
    model = ppo()
    model.learn(40 * ROLLOUT, callback=KlarmCallback("sane"))
    assert lines_of("sane", "event") == []
    rewards = [row["reward"] for row in metrics("sane") if "reward" in row]
    assert rewards[-1] > 1.3 * rewards[0]


def test_every_update_is_seen_including_the_last() -> None:
    """One row each, with the values of that update and not of the one before."""
    model = ppo()
    model.learn(10 * ROLLOUT, callback=KlarmCallback("all"))
    assert steps("all") == [ROLLOUT * (i + 1) for i in range(10)]
    counts = [row["train/n_updates"] for row in metrics("all")]
    assert counts == [EPOCHS * (i + 1) for i in range(10)]
    assert counts[-1] == model._n_updates
    last = metrics("all")[-1]
    logged = model.logger.name_to_value
    assert last["kl_old"] == pytest.approx(logged["train/approx_kl"])
    assert last["entropy"] == pytest.approx(-logged["train/entropy_loss"])
    assert 0 < last["entropy"] <= 0.6932
    assert last["clip_fraction"] == pytest.approx(logged["train/clip_fraction"])
    assert last["reward"] == pytest.approx(
        sum(episode["r"] for episode in model.ep_info_buffer) / len(model.ep_info_buffer)
    )


def test_a_sudden_fall_of_entropy_is_measured_in_updates() -> None:
    """Each is one row, however many timesteps it takes."""
    callback = KlarmCallback("fall", entropy_collapse={"fall_steps": 50})
    ppo().learn(ROLLOUT, callback=callback)
    assert callback.monitor is not None
    (entropy,) = [d for d in callback.monitor.detectors if isinstance(d, EntropyCollapseDetector)]
    assert entropy.fall_steps == 50


def test_it_says_what_it_reads_and_what_is_idle(capsys: pytest.CaptureFixture[str]) -> None:
    """SB3 has no reference model: its approx_kl is another quantity."""
    ppo().learn(10 * ROLLOUT, callback=KlarmCallback("bound"))
    said = capsys.readouterr().err
    assert "kl_old ← train/approx_kl (old policy, k3, per action): trust_region" in said
    assert "metrics are not logged: kl, " in said


def test_a_reckless_run_is_stopped_early_and_saved(capsys: pytest.CaptureFixture[str]) -> None:
    """The checkpoint lies beside the journal, is noted in it, can be loaded, and klarm says so."""
    model = ppo(RECKLESS)
    model.learn(60 * ROLLOUT, callback=KlarmCallback("reckless", on_critical="stop"))
    (opened,) = lines_of("reckless", "event")
    assert (opened["event"], opened["signal"], opened["severity"]) == ("opened", "kl", "critical")
    assert steps("reckless")[-1] == opened["step"]  # no update after it
    assert model.num_timesteps < 20 * ROLLOUT
    (saved,) = lines_of("reckless", "checkpoint")
    path = Path("klarm_runs/reckless/checkpoints").absolute() / f"critical-{opened['step']}.zip"
    assert saved["path"] == str(path)
    said = f"klarm: kl_old is critical: training stops, with a checkpoint at {path}, at step "
    assert f"{said}{opened['step']}\n" in capsys.readouterr().err
    loaded = PPO.load(path)
    assert all(torch.equal(a, b) for a, b in zip(weights(loaded), weights(model), strict=True))


def test_a_secret_given_as_text_reaches_the_channel() -> None:
    """The run is started from the configuration, not from its printed form without secrets."""
    server = Server()
    hook = {"type": "webhook", "url": f"{server.url}/hook", "bearer_token": "hunter2-hunter2"}
    try:
        ppo(RECKLESS).learn(
            60 * ROLLOUT, callback=KlarmCallback("told", on_critical="stop", channels={"ops": hook})
        )
        klarm.finish()
    finally:
        server.close()
    assert server.messages[0]["run"] == "told"
    assert {message["authorization"] for message in server.messages} == {"Bearer hunter2-hunter2"}
    assert "hunter2" not in Path("klarm_runs/told/journal.jsonl").read_text()


def test_a_model_that_was_stopped_learns_on_when_it_is_loaded(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What stopped it is still open: klarm says so, and does not stop it again at once."""
    model = ppo(RECKLESS)
    model.learn(60 * ROLLOUT, callback=KlarmCallback("loaded", on_critical="stop"))
    (saved,) = lines_of("loaded", "checkpoint")
    klarm.finish()
    loaded = PPO.load(str(saved["path"]), env=model.get_env())
    callback = KlarmCallback("loaded", on_critical="stop")
    loaded.learn(5 * ROLLOUT, callback=callback, reset_num_timesteps=False)
    assert loaded.num_timesteps == saved["step"] + 5 * ROLLOUT
    assert len(lines_of("loaded", "checkpoint")) == 1
    assert "is still open and is not acted upon again for 20 rows" in capsys.readouterr().err


def test_a_checkpoint_alone_does_not_stop(tmp_path: Path) -> None:
    """One an incident, however long it lasts, in the folder one wants."""
    model = ppo(RECKLESS)
    callback = KlarmCallback("saved", on_critical="checkpoint", checkpoint_dir=tmp_path / "mine")
    model.learn(20 * ROLLOUT, callback=callback)
    assert model.num_timesteps == 20 * ROLLOUT
    critical = [e for e in lines_of("saved", "event") if e["severity"] == "critical"]
    assert len({event["incident"] for event in critical}) == len(lines_of("saved", "checkpoint"))
    assert len(list((tmp_path / "mine").glob("critical-*.zip"))) == len(critical) == 1


def checkpoints(run: str) -> list[tuple[object, object]]:
    return [(saved["step"], saved["path"]) for saved in lines_of(run, "checkpoint")]


@pytest.mark.parametrize("klarm_first", [True, False])
def test_what_checkpoint_callback_saves_is_where_to_go_back_to(klarm_first: bool) -> None:
    """Without a line from the user, wherever it stands in the list."""
    model = ppo()
    # The learning rate jumps after half of the run.
    model.learning_rate = lambda left: SANE if left > 0.5 else RECKLESS
    model._setup_lr_schedule()
    callbacks: list[BaseCallback] = [
        CheckpointCallback(save_freq=5 * ROLLOUT // 2, save_path="models", name_prefix="ours"),
        KlarmCallback("noticed"),
    ]
    model.learn(40 * ROLLOUT, callback=callbacks[::-1] if klarm_first else callbacks)
    every = [5 * ROLLOUT * (i + 1) for i in range(8)]
    paths = {step: str(Path(f"models/ours_{step}_steps.zip").absolute()) for step in every}
    assert checkpoints("noticed") == list(paths.items())
    opened = next(event for event in lines_of("noticed", "event") if event["signal"] == "kl")
    before = [step for step in every if step < opened["onset"]]  # type: ignore[operator]
    assert opened["checkpoint"] == paths[before[-1]]
    PPO.load(str(opened["checkpoint"]))


def test_the_best_model_is_of_the_step_at_which_it_was_last_saved() -> None:
    """EvalCallback writes over it each time."""
    model = ppo()
    evaluating = EvalCallback(
        make_vec_env("CartPole-v1", seed=1), eval_freq=ROLLOUT, best_model_save_path="best",
        n_eval_episodes=1, verbose=0,
    )  # fmt: skip
    model.learn(20 * ROLLOUT, callback=[KlarmCallback("best"), evaluating])
    noticed = checkpoints("best")
    assert {path for _, path in noticed} == {str(Path("best/best_model.zip").absolute())}
    assert len(noticed) > 1
    steps_saved = [step for step, _ in noticed]
    assert steps_saved == sorted(set(steps_saved))  # type: ignore[type-var]
    assert steps_saved[-1] == PPO.load("best/best_model.zip").num_timesteps


def test_a_replay_buffer_and_normalisation_are_no_checkpoints() -> None:
    """They lie beside it, and it alone is what is loaded."""
    env = VecNormalize(make_vec_env("CartPole-v1", seed=0))
    model = DQN("MlpPolicy", env, learning_starts=50, buffer_size=500, seed=0, device="cpu")
    saving = CheckpointCallback(100, "models", save_replay_buffer=True, save_vecnormalize=True)
    model.learn(200, callback=[saving, KlarmCallback("beside")])
    assert len(list(Path("models").iterdir())) == 6
    names = [Path(str(path)).name for _, path in checkpoints("beside")]
    assert names == ["rl_model_100_steps.zip", "rl_model_200_steps.zip"]


def test_a_model_is_noticed_whoever_saves_it_and_only_if_it_is_watched() -> None:
    """Also once it has learnt; but nothing that is not a file."""
    model, other = ppo(), ppo(seed=1)
    model.learn(2 * ROLLOUT, callback=KlarmCallback("whoever"))
    model.save(Path("mine"))
    model.save("with.dots")
    model.save(io.BytesIO())
    other.save("other")
    at = 2 * ROLLOUT
    files = [str(Path(name).absolute()) for name in ("mine.zip", "with.dots")]
    assert checkpoints("whoever") == [(at, path) for path in files]
    assert all(Path(path).exists() for path in files)


def test_watching_changes_nothing() -> None:
    """The same seed gives the same weights to the last bit, saved on the way or not."""
    alone = ppo(RECKLESS).learn(20 * ROLLOUT)
    callback = KlarmCallback("same", on_critical="checkpoint")
    watched = ppo(RECKLESS).learn(20 * ROLLOUT, callback=callback)
    assert lines_of("same", "checkpoint")
    assert all(torch.equal(a, b) for a, b in zip(weights(alone), weights(watched), strict=True))


def test_learning_on_is_the_same_run() -> None:
    """Whether SB3 counts on or from 0 again: the model was not set back."""
    model, callback = ppo(), KlarmCallback("on")
    model.learn(3 * ROLLOUT, callback=callback)
    model.learn(3 * ROLLOUT, callback=callback, reset_num_timesteps=False)
    model.learn(3 * ROLLOUT, callback=callback)
    assert steps("on") == [ROLLOUT * (i + 1) for i in range(9)]
    assert lines_of("on", "resume") == []


def test_a_model_loaded_in_another_process_goes_on_in_its_run() -> None:
    """With the same name of the run, from where it was saved."""
    model = ppo()
    model.learn(4 * ROLLOUT, callback=KlarmCallback("again"))
    model.save("half")
    model.learn(2 * ROLLOUT, callback=KlarmCallback("again"), reset_num_timesteps=False)
    klarm.finish()
    loaded = PPO.load("half", env=model.get_env())
    loaded.learn(ROLLOUT, callback=KlarmCallback("again"), reset_num_timesteps=False)
    assert steps("again")[-2:] == [6 * ROLLOUT, 5 * ROLLOUT]
    assert [row["step"] for row in lines_of("again", "resume")] == [5 * ROLLOUT, 5 * ROLLOUT]


def test_one_callback_for_two_models_makes_two_runs() -> None:
    """Of which neither knows of the other."""
    callback = KlarmCallback()
    names = []
    for seed in (0, 1):
        ppo(seed=seed).learn(2 * ROLLOUT, callback=callback)
        assert callback.monitor is not None
        names.append(callback.monitor.run)
    assert [steps(name) for name in names] == [[ROLLOUT, 2 * ROLLOUT]] * 2


def test_a2c_is_watched_in_a_list_of_callbacks() -> None:
    """It has an update every five steps, and no approx_kl."""
    model = A2C("MlpPolicy", "CartPole-v1", seed=0, device="cpu")
    model.learn(500, callback=CallbackList([KlarmCallback("a2c")]))
    assert len(steps("a2c")) == model._n_updates == 100
    assert all("kl_old" not in row and row["entropy"] > 0 for row in metrics("a2c"))
    last, logged = metrics("a2c")[-1], model.logger.name_to_value
    assert "loss" not in last  # A2C logs its parts, not their sum
    assert last["actor_loss"] == pytest.approx(logged["train/policy_loss"])
    assert last["critic_loss"] == pytest.approx(logged["train/value_loss"])
    assert "explained_variance" in last


@pytest.mark.parametrize("kind", [SAC, TD3])
def test_actor_and_critic_are_watched_apart(kind: type[SAC | TD3]) -> None:
    """They log no loss that is the sum of both."""
    model = kind("MlpPolicy", "Pendulum-v1", learning_starts=50, seed=0, device="cpu")
    model.learn(120, callback=KlarmCallback("apart"))
    rows = metrics("apart")
    assert all("critic_loss" in row and "loss" not in row for row in rows)
    assert sum("actor_loss" in row for row in rows) >= len(rows) // 2  # TD3's is every other


def test_off_policy_learning_is_watched_from_its_first_update(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """There is no row before learning starts, and what is idle is said."""
    model = DQN("MlpPolicy", "CartPole-v1", learning_starts=200, seed=0, device="cpu")
    model.learn(400, callback=KlarmCallback("dqn"))
    assert len(steps("dqn")) == model._n_updates == 50
    assert steps("dqn")[0] > 200  # type: ignore[operator]
    assert all("loss" in row for row in metrics("dqn"))
    said = capsys.readouterr().err
    assert "metrics are not logged: kl, kl_old, " in said
    assert "GRPO" not in said


def test_a_run_that_cannot_be_recorded_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is watched all the same, and stopped though it cannot be saved."""
    monkeypatch.setattr(boundary, "raise_failures", False)
    Path("file").write_text("no folder can be made in here")
    monkeypatch.setenv("KLARM_DIR", "file/runs")
    model = ppo(RECKLESS)
    model.learn(60 * ROLLOUT, callback=KlarmCallback("lost", on_critical="stop"))
    assert 0 < model.num_timesteps < 20 * ROLLOUT
    said = capsys.readouterr().err
    assert "the run is watched but not recorded" in said
    assert "internal error in _on_rollout_start" in said


def test_a_failure_of_klarm_does_not_end_the_training(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A detector that raises is said once, and every row is still recorded."""
    monkeypatch.setattr(boundary, "raise_failures", False)

    def broken(*_: object) -> None:
        raise RuntimeError("this detector is broken")

    monkeypatch.setattr(TrustRegionDetector, "_observe", broken)
    model = ppo()
    model.learn(5 * ROLLOUT, callback=KlarmCallback("broken"))
    assert model.num_timesteps == 5 * ROLLOUT
    assert len(steps("broken")) == 5
    assert capsys.readouterr().err.count("this detector is broken") == 1


def test_a_callback_that_cannot_look_leaves_the_model_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As when a future SB3 keeps its values elsewhere."""
    monkeypatch.setattr(boundary, "raise_failures", False)
    model, callback = ppo(), KlarmCallback("blind")
    monkeypatch.setattr(type(callback), "logger", None)
    model.learn(3 * ROLLOUT, callback=callback)
    assert model.num_timesteps == 3 * ROLLOUT
    assert capsys.readouterr().err.count("internal error in _on_rollout_start") == 1


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"on_critical": "explode"}, "on_critical is 'explode': it must be"),
        ({"trust_region": {"max_nats": 1}}, "trust_region.max_nats is unknown"),
        ({"run": "a/b"}, "a/b"),
        ({"config": "nowhere.yaml"}, "nowhere.yaml"),
    ],
)
def test_wrong_settings_raise_before_anything_starts(wrong: dict[str, object], said: str) -> None:
    """When the callback is made, not in the middle of a training."""
    with pytest.raises(klarm.ConfigError, match=said):
        KlarmCallback(**wrong)  # type: ignore[arg-type]
    assert not Path("klarm_runs").exists()


def test_an_environment_without_episodes_is_watched() -> None:
    """SB3 has no mean return then, and none is made up."""

    class Endless(gym.Env):  # type: ignore[type-arg]
        observation_space = gym.spaces.Box(-1.0, 1.0, (1,))
        action_space = gym.spaces.Box(-1.0, 1.0, (1,))

        def reset(self, **_: object):  # type: ignore[no-untyped-def, override]
            return self.observation_space.sample(), {}

        def step(self, action):  # type: ignore[no-untyped-def]
            return self.observation_space.sample(), 1.0, False, False, {}

    model = PPO("MlpPolicy", Endless(), n_steps=64, n_epochs=1, device="cpu")
    model.learn(128, callback=KlarmCallback("endless"))
    assert [row.keys() & {"reward", "kl_old"} for row in metrics("endless")] == [{"kl_old"}] * 2
