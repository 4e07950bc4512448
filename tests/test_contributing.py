"""The examples of CONTRIBUTING.md work as they are: readers copy them."""

from __future__ import annotations

import importlib
import random
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from loopback import Server

from klarm.channels.message import Message
from klarm.settings import ConfigError, Secret
from klarm.testing import alerts_of, check_detector
from recorded_lines import lines_of

ROOT = Path(__file__).parents[1]
BLOCKS = re.findall(r"(?ms)^```python\n(.*?)^```$", (ROOT / "CONTRIBUTING.md").read_text())

Example = Callable[[str], Any]


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Iterator[Example]:
    """Import the one block of the guide that contains a text, as a module of its own."""
    made: list[str] = []

    def imported(text: str) -> ModuleType:
        (block,) = [block for block in BLOCKS if text in block]
        made.append(f"example_{len(made)}")
        Path(f"{made[-1]}.py").write_text(block)
        return importlib.import_module(made[-1])

    monkeypatch.syspath_prepend(Path.cwd())
    yield imported
    for name in made:
        sys.modules.pop(name, None)


def test_the_examples_pass_the_linter() -> None:
    """Whoever copies one has nothing to correct."""
    for number, block in enumerate(BLOCKS):
        file = Path(f"block_{number}.py")
        file.write_text(block)
        for check in (("check", "--ignore", "INP001,I001"), ("format", "--check")):
            call = [sys.executable, "-m", "ruff", *check, "--config", ROOT / "pyproject.toml", file]
            done = subprocess.run(call, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout
    assert len(BLOCKS) == 4


def test_the_detector_keeps_the_contract(example: Example) -> None:
    """It alerts at the step that its recipe pins."""
    kind = example("class RewardFloorDetector").RewardFloorDetector
    check_detector(kind, level=1.0)
    assert [alert.step for alert in alerts_of(kind(), [1.0] * 30 + [-0.5])] == [30]


def test_the_channel_sends_with_its_token(
    example: Example, server: Server, message: Message
) -> None:
    """And refuses settings that cannot work."""
    kind = example("class MyChannel").MyChannel
    channel = kind(name="mine", topic="runs", token=Secret("tk_123456"), api_url=server.url)
    assert channel.send(message, {}) == {}
    (sent,) = server.messages
    assert (sent["topic"], sent["title"]) == ("runs", message.title)
    assert sent["authorization"] == "Bearer tk_123456"
    for wrong in ({}, {"topic": "a", "token": Secret("ключ")}, {"topic": "a", "api_url": "b"}):
        with pytest.raises(ConfigError, match=r"channels.mine\.\w+ m"):
            kind(name="mine", **wrong)


def test_the_keys_are_those_of_a_framework(example: Example) -> None:
    """By the name of its file."""
    framework = example("MY_FRAMEWORK = Framework(").MY_FRAMEWORK
    assert framework.name == "my-framework"
    assert {row.metric for row in framework.keys.values()} == {"kl", "entropy"}
    assert framework.plain_keys.keys() == {"reward", "grad_norm"}


class Trainer:
    """The trainer of a made-up framework, whose KL explodes at a step."""

    def __init__(self, callback: Any, explodes_at: int = 10**9) -> None:
        self.callback, self.explodes_at = callback, explodes_at
        self.run_name, self.step, self.should_stop = "their/run", 0, False

    def save(self, path: Path) -> None:
        path.write_text(str(self.step))
        self.callback.on_save(self, path)

    def train(self, steps: int) -> None:
        noise = random.Random(self.step)
        self.callback.on_train_begin(self)
        for _ in range(steps):
            self.step += 1
            factor = 3.0 ** max(0, self.step - self.explodes_at)
            self.callback.on_step(self, {"kl": 0.02 * noise.lognormvariate(0.0, 0.1) * factor})
            if self.step % 20 == 0:
                self.save(Path(f"checkpoint-{self.step}"))
            if self.should_stop:
                break
        self.callback.on_train_end(self)


@pytest.fixture
def callback(example: Example, monkeypatch: pytest.MonkeyPatch) -> Any:
    framework = ModuleType("my_framework")
    framework.Callback = object  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "my_framework", framework)
    return example("class KlarmCallback").KlarmCallback


def checkpoints(run: str) -> list[str]:
    return [Path(str(line["path"])).name for line in lines_of(run, "checkpoint")]


def test_the_hook_logs_every_step_and_every_checkpoint(callback: Any) -> None:
    """Training again with the same trainer continues the run."""
    trainer = Trainer(callback("a", console=False))
    trainer.train(30)
    trainer.train(20)
    assert [line["step"] for line in lines_of("a", "step")] == list(range(1, 51))
    assert checkpoints("a") == ["checkpoint-20", "checkpoint-40"]


def test_the_hook_saves_and_stops_once_it_is_critical(callback: Any) -> None:
    """The checkpoint that it saves itself is noted once."""
    trainer = Trainer(callback("b", on_critical="stop", console=False), explodes_at=90)
    trainer.train(300)
    assert 90 < trainer.step < 110
    assert checkpoints("b")[-1] == f"critical-{trainer.step}"
    assert len(checkpoints("b")) == trainer.step // 20 + 1


def test_the_hook_starts_a_run_for_another_trainer(callback: Any) -> None:
    """Under the name that the framework has for it."""
    hook = callback(console=False)
    for _ in range(2):
        trainer = Trainer(hook)
        hook.monitor = None
        trainer.train(5)
        assert hook.monitor.run == "their-run"
    with pytest.raises(ConfigError):
        callback("a", on_critical="pause")
