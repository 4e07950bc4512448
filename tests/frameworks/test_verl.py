"""verl: the real Tracking class, with klarm as a backend that verl found by itself."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import pytest
import verl
from verl.utils.tracking import Tracking

import klarm
from klarm import boundary
from recorded_lines import lines_of

# What verl's PPO trainer logs at a step, with a KL loss and a reward penalty.
STEP = {
    "actor/kl_loss": 0.02,
    "actor/ppo_kl": 0.001,
    "actor/reward_kl_penalty": 0.03,
    "actor/reward_kl_penalty_coeff": 0.001,
    "actor/entropy": 0.9,
    "actor/pg_loss": -0.01,
    "actor/pg_clipfrac": 0.05,
    "actor/grad_norm": 0.4,
    "actor/lr": 1e-6,
    "critic/score/mean": 0.5,
    "critic/rewards/mean": 0.45,
    "response_length/mean": 210.0,
    "response_length/clip_ratio": 0.02,
    "rollout_corr/k3_kl": 0.0004,
}


def test_installing_klarm_is_enough() -> None:
    """Importing verl alone adds the backend."""
    code = (
        "import verl; from verl.utils.tracking import Tracking; print(Tracking.supported_backend)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "'klarm'" in done.stdout.splitlines()[-1]


def test_what_verl_logs_is_watched_under_klarms_names() -> None:
    """Beside the console, the run named after project and experiment, steps as verl counts them."""
    tracking = Tracking("math", "qwen/7b", ["console", "klarm"], config={"secret": "hunter2"})
    for step in (1, 2):
        tracking.log(data=STEP, step=step)
    tracking.log({"val-core/gsm8k/acc": 0.6}, 2)
    tracking.finish()
    run = "math-qwen-7b"
    steps = lines_of(run, "step")
    assert [step["step"] for step in steps] == [1, 2, 2]
    assert steps[0]["metrics"] == {
        "kl": 0.02,
        "kl_old": 0.001,
        "actor/reward_kl_penalty": 0.03,
        "kl_coef": 0.001,
        "entropy": 0.9,
        "loss": -0.01,
        "clip_fraction": 0.05,
        "grad_norm": 0.4,
        "learning_rate": 1e-6,
        "reward": 0.5,
        "critic/rewards/mean": 0.45,
        "length": 210.0,
        "truncated_fraction": 0.02,
        "kl_rollout": 0.0004,
    }
    assert lines_of(run, "run")[0]["framework"] == "verl"
    assert lines_of(run, "finish")[0]["steps"] == 2
    assert "hunter2" not in Path(f"klarm_runs/{run}/journal.jsonl").read_text()


def test_a_nan_opens_an_incident() -> None:
    """All the way from verl's call."""
    tracking = Tracking("p", "e", "klarm")
    tracking.log({**STEP, "actor/kl_loss": math.nan}, 1)
    assert [event["signal"] for event in lines_of("p-e", "event")] == ["kl"]


def test_without_the_backend_nothing_is_watched() -> None:
    """The plugin is in every process that imports verl."""
    Tracking("p", "e", "console").log(STEP, 1)
    assert not Path("klarm_runs").exists()


def test_a_name_from_the_environment_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """KLARM_RUN is what somebody wrote down on purpose."""
    monkeypatch.setenv("KLARM_RUN", "mine")
    Tracking("p", "e", ["klarm"])
    assert Path("klarm_runs/mine/journal.jsonl").exists()


def test_a_wrong_configuration_is_said_before_training() -> None:
    """Where Tracking is made; a run nobody watches would be worse."""
    Path("klarm.yaml").write_text("kl_explosion:\n  sigma: 5\n")
    with pytest.raises(klarm.ConfigError, match=r"klarm\.yaml: kl_explosion\.sigma is unknown"):
        Tracking("p", "e", ["console", "klarm"])


@pytest.mark.usefixtures("broken_detector")
def test_a_failure_of_ours_leaves_verls_other_backends_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A detector that breaks is said, and the file backend has every step."""
    monkeypatch.setenv("VERL_FILE_LOGGER_PATH", "verl.jsonl")
    tracking = Tracking("p", "e", ["klarm", "file"])
    for step in range(3):
        tracking.log(STEP, step)
    tracking.finish()
    assert len(Path("verl.jsonl").read_text().splitlines()) == 3
    assert capsys.readouterr().err.count("broken detector") == 1


def test_a_run_that_cannot_be_started_leaves_verl_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Something in klarm.init fails that is no mistake of the user's."""
    monkeypatch.setattr(boundary, "raise_failures", False)
    monkeypatch.setattr("klarm.api.Started", None)
    Tracking("p", "e", ["klarm", "console"]).log(STEP, 1)
    assert "Training continues" in capsys.readouterr().err


def test_verl_can_be_imported_where_klarm_is_broken() -> None:
    """As with a dependency of ours that is not there."""
    code = "import sys; sys.modules['msgspec'] = None; import verl; print('imported')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "imported"


def test_our_file_is_not_taken_for_the_package() -> None:
    """Both are called verl."""
    import klarm.integrations.verl

    assert klarm.integrations.verl.__file__ != verl.__file__
    assert hasattr(verl, "DataProto")
