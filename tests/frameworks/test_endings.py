"""A training that fails in a framework is reported as what it was."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SB3 = """
import sys
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from klarm.integrations.sb3 import KlarmCallback

class Failing(BaseCallback):
    def _on_step(self):
        if self.num_timesteps > 100:
            exec(sys.argv[1])
        return True

model = PPO("MlpPolicy", "CartPole-v1", n_steps=32, device="cpu")
model.learn(200, callback=[KlarmCallback("a"), Failing()])
"""


@pytest.mark.parametrize(
    ("what", "code", "expected"),
    [
        ("raise RuntimeError('no simulator')", 1, ("crashed", "RuntimeError: no simulator")),
        ("sys.exit(3)", 3, ("stopped", "SystemExit: 3")),
        ("pass", 0, ("", "")),
    ],
)
def test_a_model_of_stable_baselines3_that_stops_learning(
    what: str, code: int, expected: tuple[str, str]
) -> None:
    """The process ends as it would without klarm."""
    done = subprocess.run(
        [sys.executable, "-c", SB3, what], capture_output=True, timeout=300, check=False
    )
    assert done.returncode == code
    lines = map(json.loads, Path("klarm_runs/a/journal.jsonl").read_text().splitlines())
    (finish,) = [line for line in lines if line["type"] == "finish"]
    assert (finish.get("outcome", ""), finish.get("error", "")) == expected
