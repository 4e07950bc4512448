"""A tiny GRPO run with klarm's callback, in this process or, as a script, in one of its own.

The script takes one JSON object: the arguments of `make_trainer`, those of `Learning`, those of
`Probe` as `probe`, and `broken` for a rank on which klarm cannot start to record. `fails_with`
names an exception that training raises after its second step. It writes what came of it to
`<folder>/rank<n>.json`.
"""

from __future__ import annotations

import builtins
import json
import os
import random
import signal
import sys
from pathlib import Path
from typing import Any

os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

import torch
from datasets import Dataset
from tiny_grpo import make_tokenizer, pretrain, sentence, share_of_a
from transformers import PrinterCallback, Qwen2ForCausalLM, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from klarm import api
from klarm.integrations.trl import KlarmCallback
from klarm.probe import Probe


def make_reference(folder: Path) -> Path:
    """Teach the reference model its toy language, and return where it is."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    random.seed(0)
    pretrain(make_tokenizer(), folder)
    return folder


class Failing(TrainerCallback):
    """Raises an exception after the second step."""

    def __init__(self, kind: str) -> None:
        self.kind: type[BaseException] = getattr(builtins, kind)

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == 2:
            raise self.kind("at step 2")


class Learning(TrainerCallback):
    """Multiplies the learning rate by 100 after a step, and kills the process after another."""

    def __init__(self, jump_at: int = 0, kill_at: int = 0) -> None:
        self.jump_at = jump_at
        self.kill_at = kill_at

    def on_step_end(self, args, state, control, lr_scheduler=None, **kwargs):
        if state.global_step == self.jump_at:
            lr_scheduler.base_lrs = [rate * 100 for rate in lr_scheduler.base_lrs]

    def on_log(self, args, state, control, **kwargs):
        if state.global_step == self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)


def make_trainer(
    reference: Path,
    folder: Path,
    steps: int,
    callbacks: list[TrainerCallback],
    *,
    seed: int = 1,
    trainer_class: type[GRPOTrainer] = GRPOTrainer,
    **settings: Any,
) -> GRPOTrainer:
    """Return a trainer that is set up and has not begun; settings are GRPOConfig's."""
    torch.set_num_threads(1)
    random.seed(1)
    prompts = Dataset.from_list([{"prompt": sentence(2) + " "} for _ in range(256)])
    config = {
        "output_dir": str(folder),
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "report_to": "none",
        "per_device_train_batch_size": 16,
        "num_generations": 8,
        "max_completion_length": 16,
        "learning_rate": 2e-5,
        "lr_scheduler_type": "constant",
        "beta": 0.3,
        "max_steps": steps,
        "logging_steps": 1,
        "save_strategy": "no",
        "seed": seed,
        "disable_tqdm": True,
    }
    trainer = trainer_class(
        model=Qwen2ForCausalLM.from_pretrained(reference),
        reward_funcs=share_of_a,
        args=GRPOConfig(**{**config, **settings}),
        train_dataset=prompts,
        eval_dataset=prompts.select(range(16)),
        processing_class=make_tokenizer(),
        callbacks=callbacks,
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


def losses(trainer: GRPOTrainer) -> list[float]:
    """Return the loss of every step, as the trainer logged it."""
    return [row["loss"] for row in trainer.state.log_history if "loss" in row]


def main() -> None:
    options = json.loads(sys.argv[1])
    folder = Path(options.pop("folder"))
    klarm = options.pop("klarm", {})
    learning = Learning(options.pop("jump_at", 0), options.pop("kill_at", 0))
    resume = options.pop("resume", False)
    reference = Path(options.pop("reference"))
    rank = os.environ.get("RANK", "0")
    if options.pop("broken", None) == rank:
        api.FileJournal = None  # what calls it fails
    if (probe := options.pop("probe", None)) is not None:
        klarm["probe"] = Probe(**probe)
    callbacks = [KlarmCallback(**klarm), learning]
    if fails_with := options.pop("fails_with", None):
        callbacks.append(Failing(fails_with))
    trainer = make_trainer(reference, folder, callbacks=callbacks, **options)
    trainer.train(resume_from_checkpoint=resume)
    result = {"step": trainer.state.global_step, "losses": losses(trainer)}
    (folder / f"rank{rank}.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main()
