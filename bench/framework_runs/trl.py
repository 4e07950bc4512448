"""TRL: GRPO, RLOO, SFT, DPO, KTO and reward models, of a two-layer model of a toy language."""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

import torch
from datasets import Dataset
from tiny_grpo import WORDS, make_tokenizer, pretrain, sentence, share_of_a
from transformers import (
    PrinterCallback,
    Qwen2ForCausalLM,
    Qwen2ForSequenceClassification,
    TrainerCallback,
    set_seed,
)
from trl import (
    DPOConfig,
    DPOTrainer,
    GRPOConfig,
    GRPOTrainer,
    KTOConfig,
    KTOTrainer,
    RewardConfig,
    RewardTrainer,
    RLOOConfig,
    RLOOTrainer,
    SFTConfig,
    SFTTrainer,
)

from framework_runs.run import Recording, Row, Run, runs_of

# A second language, which SFT teaches.
NEW_TALE = "the wolf hid under old pines while cold rain fell on dark stones by its den"
NEW_WORDS = NEW_TALE.split()


def distinct_words(completions: list[str], **_: object) -> list[float]:
    """Reward different words of the toy language; this reward cannot be hacked."""
    return [len(set(text.split()) & set(WORDS)) / 4 for text in completions]


def one_word(completions: list[str], **_: object) -> list[float]:
    """Reward a single word: sparse at first, then soon learnt."""
    return [float("moon" in text.split()) for text in completions]


def brevity(completions: list[str], **_: object) -> list[float]:
    """Reward completions that end early."""
    return [1.0 - len(text) / 16 for text in completions]


def avoid_r(completions: list[str], **_: object) -> list[float]:
    """Penalise a letter: the reward is at most 0."""
    return [-10.0 * text.count("r") / max(1, len(text)) for text in completions]


def chance(completions: list[str], **_: object) -> list[float]:
    """Reward by chance: nothing can be learnt."""
    return [random.random() for _ in completions]


# "letter" can be gamed, the others cannot.
_REWARDS: dict[str, list[Callable[..., list[float]]]] = {
    "letter": [share_of_a],
    "words": [distinct_words],
    "sparse": [one_word],
    "brevity": [brevity],
    "penalty": [avoid_r],
    "chance": [chance],
    "sum": [distinct_words, avoid_r, brevity],
}
# TRL's default: no reference model and no KL.
_WITHOUT_KL = [
    *runs_of(
        "trl", "GRPO", "beta0-words", rows=150, learning_rate=5e-5, beta=0.0, reward="words",
        healthy=(0, 1, 2, 3, 6, 7), jump=(0, 1, 2, 3), start=(4, 5),
    ),
    *runs_of(
        "trl", "GRPO", "beta0-letter", rows=150, learning_rate=2e-5, beta=0.0, reward="letter",
        healthy=(0, 1, 2, 3, 6, 7), jump=(0, 1), start=(4, 5),
    ),
    *runs_of(
        "trl", "GRPO", "beta0-sparse", rows=150, learning_rate=5e-5, beta=0.0, reward="sparse",
        healthy=(0, 1, 6, 7), jump=(2, 3), start=(4, 5), start_rate=0.02,
    ),
    *runs_of(
        "trl", "GRPO", "beta0-cosine", rows=200, learning_rate=1e-4, beta=0.0, reward="words",
        lr_scheduler_type="cosine", warmup_steps=10, healthy=(0, 1, 6, 7), jump=(2, 3), start=(),
    ),
    *runs_of(
        "trl", "GRPO", "beta0-iterations4", rows=160, learning_rate=3e-5, beta=0.0,
        reward="words", num_iterations=4, healthy=(0, 1, 6, 7), jump=(2, 3),
    ),
]  # fmt: skip
_WITH_KL = [
    *runs_of(
        "trl", "GRPO", "beta-words", rows=150, learning_rate=5e-5, beta=0.04, reward="words",
        healthy=(0, 1, 2, 3, 6, 7), jump=(0, 1, 2), start=(3, 4),
    ),
    *runs_of(
        "trl", "GRPO", "beta-letter", rows=150, learning_rate=2e-5, beta=0.3, reward="letter",
        healthy=(0, 1, 6, 7), jump=(2, 3), start=(5,), start_rate=0.01,
    ),
    *runs_of(
        "trl", "GRPO", "beta-iterations4", rows=160, learning_rate=3e-5, beta=0.1,
        reward="letter", num_iterations=4, healthy=(0, 1, 6, 7), jump=(2, 3),
    ),
    *runs_of(
        "trl", "RLOO", "beta-words", rows=150, learning_rate=5e-5, beta=0.05, reward="words",
        healthy=(0, 1, 6, 7), jump=(2, 3),
    ),
]  # fmt: skip
_SUPERVISED = [
    *runs_of(
        "trl", "SFT", "new-words", rows=150, learning_rate=5e-4,
        healthy=(0, 1, 2, 3, 6, 7), jump=(0, 1), start=(2, 3),
    ),
    *runs_of(
        "trl", "DPO", "order", rows=150, learning_rate=5e-5, beta=0.1,
        healthy=(0, 1, 2, 3, 6, 7), jump=(0, 1), start=(2, 3),
    ),
]  # fmt: skip
# Healthy runs only, of other rewards and other settings.
_LATER = (6, 7, 8, 9)
_FURTHER_RL = [
    *runs_of(
        "trl", "GRPO", "beta-brevity", rows=120, learning_rate=2e-5, beta=0.04, reward="brevity",
        healthy=_LATER,
    ),
    *runs_of(
        "trl", "GRPO", "beta0-penalty", rows=120, learning_rate=3e-5, beta=0.0, reward="penalty",
        epsilon_high=0.28, loss_type="dr_grpo", scale_rewards=False, healthy=_LATER,
    ),
    *runs_of(
        "trl", "GRPO", "beta-chance", rows=120, learning_rate=2e-5, beta=0.02, reward="chance",
        healthy=_LATER,
    ),
    *runs_of(
        "trl", "GRPO", "beta-sum", rows=120, learning_rate=5e-5, beta=0.04, reward="sum",
        lr_scheduler_type="linear", warmup_steps=15, max_grad_norm=0.2, healthy=_LATER,
    ),
    *runs_of(
        "trl", "GRPO", "beta-small-batch", rows=200, learning_rate=1e-5, beta=0.04,
        reward="words", per_device_train_batch_size=4, num_generations=4, healthy=_LATER,
    ),
    *runs_of(  # a row every fourth step, each the mean of four
        "trl", "GRPO", "beta-every4", rows=160, learning_rate=3e-5, beta=0.04, reward="letter",
        logging_steps=4, num_iterations=2, temperature=0.8, healthy=_LATER,
    ),
    *runs_of(
        "trl", "RLOO", "beta0-letter", rows=120, learning_rate=2e-5, beta=0.0, reward="letter",
        lr_scheduler_type="linear", healthy=_LATER,
    ),
    *runs_of(
        "trl", "RLOO", "beta-sparse", rows=120, learning_rate=4e-5, beta=0.05, reward="sparse",
        num_iterations=2, healthy=_LATER,
    ),
]  # fmt: skip
_FURTHER_SUPERVISED = [
    *runs_of(
        "trl", "SFT", "cosine", rows=200, learning_rate=1e-3, lr_scheduler_type="cosine",
        warmup_steps=20, per_device_train_batch_size=8, healthy=_LATER,
    ),
    *runs_of(
        "trl", "DPO", "ipo", rows=120, learning_rate=3e-5, beta=0.2, loss_type="ipo",
        lr_scheduler_type="linear", warmup_steps=10, healthy=_LATER,
    ),
    *runs_of(
        "trl", "KTO", "order", rows=120, learning_rate=5e-5, beta=0.1, healthy=_LATER,
    ),
    *runs_of(
        "trl", "Reward", "order", rows=150, learning_rate=3e-4, lr_scheduler_type="cosine",
        healthy=_LATER,
    ),
]  # fmt: skip
RUNS = [*_WITHOUT_KL, *_WITH_KL, *_SUPERVISED, *_FURTHER_RL, *_FURTHER_SUPERVISED]


def record(run: Run) -> Recording:
    """Train a run; a row is what the trainer logs at a step."""
    torch.set_num_threads(1)
    _reference()  # has a seed of its own
    set_seed(run.seed)
    observer = _Observer(run)
    with tempfile.TemporaryDirectory() as scratch:
        trainer = _TRAINERS[run.algorithm](run, scratch)
        trainer.add_callback(observer)
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    return Recording(observer.rows, [_score(run, row) for row in observer.rows])


class _Observer(TrainerCallback):
    """Keeps what the trainer logs, and raises the learning rate at the planned step."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.rows: list[Row] = []

    def on_log(self, args, state, control, logs=None, **_):  # noqa: ARG002
        self.rows.append({"step": state.global_step, **logs})

    def on_step_end(self, args, state, control, lr_scheduler=None, optimizer=None, **_):  # noqa: ARG002
        step, run = state.global_step, self.run
        factor = run.rate_factor(step + 1) / run.rate_factor(step)
        if factor != 1:
            # The schedule has already set the rate of the next step.
            lr_scheduler.base_lrs = [rate * factor for rate in lr_scheduler.base_lrs]
            lr_scheduler._last_lr = [rate * factor for rate in lr_scheduler._last_lr]
            for group in optimizer.param_groups:
                group["lr"] *= factor


def _score(run: Run, row: Row) -> float | None:
    if run.algorithm in ("GRPO", "RLOO"):
        return row.get("reward")
    return -row["loss"] if row.get("loss") is not None else None


def _policy_gradient(config_class: type, trainer_class: type) -> Callable[[Run, str], Any]:
    def make(run: Run, folder: str) -> Any:
        settings = {
            "num_generations": 8,
            "max_completion_length": 16,
            **_settings(run, folder),
        }
        reward = _REWARDS[settings.pop("reward")]
        return trainer_class(
            model=_model(),
            reward_funcs=reward,
            args=config_class(**settings),
            train_dataset=Dataset.from_list([{"prompt": sentence(2) + " "} for _ in range(256)]),
            processing_class=make_tokenizer(),
        )

    return make


def _supervised(run: Run, folder: str) -> Any:
    texts = [{"text": " ".join(random.choices(NEW_WORDS, k=6)) + "."} for _ in range(2048)]
    return SFTTrainer(
        model=_model(),
        args=SFTConfig(**_settings(run, folder), max_length=40),
        train_dataset=Dataset.from_list(texts),
        processing_class=make_tokenizer(),
    )


def _preference(run: Run, folder: str) -> Any:
    return DPOTrainer(
        model=_model(),
        args=DPOConfig(**_settings(run, folder)),
        train_dataset=Dataset.from_list([_pair() for _ in range(2048)]),
        processing_class=make_tokenizer(),
    )


def _unpaired_preference(run: Run, folder: str) -> Any:
    def judged(number: int) -> dict[str, Any]:
        pair, good = _pair(), number % 2 == 0
        answer = pair["chosen" if good else "rejected"]
        return {"prompt": pair["prompt"], "completion": answer, "label": good}

    return KTOTrainer(
        model=_model(),
        args=KTOConfig(**_settings(run, folder)),
        train_dataset=Dataset.from_list([judged(number) for number in range(2048)]),
        processing_class=make_tokenizer(),
    )


def _reward_model(run: Run, folder: str) -> Any:
    model = Qwen2ForSequenceClassification.from_pretrained(
        _reference().name, dtype=torch.float32, num_labels=1
    )
    return RewardTrainer(
        model=model,
        args=RewardConfig(**_settings(run, folder)),
        train_dataset=Dataset.from_list([_pair() for _ in range(2048)]),
        processing_class=make_tokenizer(),
    )


def _pair() -> dict[str, str]:
    """Prefer words in alphabetical order; one judgement in five is wrong."""
    words = random.sample(WORDS, k=4)
    wrong = random.random() < 0.2
    return {
        "prompt": sentence(1) + " ",
        "chosen": " ".join(sorted(words, reverse=wrong)) + ".",
        "rejected": " ".join(sorted(words, reverse=not wrong)) + ".",
    }


def _settings(run: Run, folder: str) -> dict[str, Any]:
    return {
        "output_dir": folder,
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "report_to": "none",
        "per_device_train_batch_size": 16,
        "learning_rate": run.base_rate,
        "max_steps": run.rows,
        "logging_steps": 1,
        "save_strategy": "no",
        "seed": run.seed,
        "disable_tqdm": True,
        "lr_scheduler_type": "constant",
        **run.options,
    }


@cache
def _reference() -> tempfile.TemporaryDirectory[str]:
    """Teach the reference model its toy language; it lives as long as the process."""
    folder = tempfile.TemporaryDirectory()
    random.seed(0)
    torch.manual_seed(0)
    pretrain(make_tokenizer(), Path(folder.name))
    return folder


def _model() -> Qwen2ForCausalLM:
    return Qwen2ForCausalLM.from_pretrained(_reference().name, dtype=torch.float32)


_TRAINERS: dict[str, Callable[[Run, str], Any]] = {
    "GRPO": _policy_gradient(GRPOConfig, GRPOTrainer),
    "RLOO": _policy_gradient(RLOOConfig, RLOOTrainer),
    "SFT": _supervised,
    "DPO": _preference,
    "KTO": _unpaired_preference,
    "Reward": _reward_model,
}
