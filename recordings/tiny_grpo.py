"""Trains three tiny GRPO runs with TRL on the CPU and records what the trainer logged.

`make recordings` calls this. The logs are what `klarm demo` plays and what the tests replay:
a healthy run, one whose learning rate is multiplied by 100 half-way, and one that drifts
because hardly any KL penalty holds it. Nothing is downloaded: tokenizer, model, data and reward
are made here.
"""

from __future__ import annotations

import json
import os
import random
import string
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

import torch
from datasets import Dataset
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    PreTrainedTokenizerFast,
    PrinterCallback,
    Qwen2Config,
    Qwen2ForCausalLM,
    TrainerCallback,
)
from trl import GRPOConfig, GRPOTrainer

SPECIAL = ["<pad>", "<bos>", "<eos>", "<unk>"]
LETTERS = list(string.ascii_lowercase + " .")
TALE = "an owl sat in a warm barn and saw the moon rise over far hills as a cat ran past"
WORDS = TALE.split()
PAD, BOS, EOS = 0, 1, 2

# What a TRL user sees, without the keys that only describe the machine.
KEPT = (
    "loss",
    "grad_norm",
    "learning_rate",
    "reward",
    "reward_std",
    "frac_reward_zero_std",
    "entropy",
    "kl",
    "clip_ratio/region_mean",
    "completions/mean_length",
    "completions/clipped_ratio",
)


@dataclass(frozen=True)
class Recipe:
    """One run: what to train with, and what happens to the learning rate on the way."""

    name: str
    learning_rate: float
    beta: float
    steps: int = 300
    schedule: str = "constant"
    jump_at: int = 0
    jump_factor: float = 1.0


RECIPES = (
    Recipe("healthy", learning_rate=5e-5, beta=0.5, schedule="cosine"),
    Recipe("exploding", learning_rate=2e-5, beta=0.3, jump_at=150, jump_factor=100.0),
    Recipe("drifting", learning_rate=3e-5, beta=0.001, steps=400),
)


def make_tokenizer() -> PreTrainedTokenizerFast:
    """Return a tokenizer with one token per character."""
    vocabulary = {token: i for i, token in enumerate(SPECIAL + LETTERS)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        bos_token="<bos>",
        eos_token="<eos>",
        unk_token="<unk>",
        padding_side="left",
    )


def sentence(words: int) -> str:
    """Return some words of the toy language."""
    return " ".join(random.choices(WORDS, k=words))


def pretrain(tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Teach a two-layer model the toy language: a reference as peaked as a real one."""
    config = Qwen2Config(
        vocab_size=len(SPECIAL) + len(LETTERS),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=128,
        tie_word_embeddings=True,
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
    )
    model = Qwen2ForCausalLM(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(400):
        rows = [tokenizer(sentence(6) + ".")["input_ids"] + [EOS] for _ in range(32)]
        batch = torch.tensor([(row + [PAD] * 40)[:40] for row in rows])
        labels = batch.masked_fill(batch == PAD, -100)
        loss = model(input_ids=batch, attention_mask=(batch != PAD).long(), labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.save_pretrained(folder)


def share_of_a(completions: list[str], **_: object) -> list[float]:
    """Reward the letter a: easy to learn, and easy to game by writing nothing else."""
    return [2.0 * text.count("a") / max(1, len(text)) for text in completions]


class LearningRateJump(TrainerCallback):
    """Multiplies the learning rate once, as a slip in a schedule would."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe

    def on_step_end(self, args, state, control, lr_scheduler=None, **kwargs):  # noqa: ARG002
        """Change the schedule when the step has come."""
        if self.recipe.jump_at and state.global_step == self.recipe.jump_at:
            factor = self.recipe.jump_factor
            lr_scheduler.base_lrs = [rate * factor for rate in lr_scheduler.base_lrs]


def train(recipe: Recipe, reference: Path, tokenizer: PreTrainedTokenizerFast) -> list[dict]:
    """Run GRPO by the recipe and return the trainer's log rows."""
    random.seed(1)
    prompts = Dataset.from_list([{"prompt": sentence(2) + " "} for _ in range(256)])
    config = GRPOConfig(
        output_dir=str(reference.parent / recipe.name),
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        report_to="none",
        per_device_train_batch_size=16,
        num_generations=8,
        max_completion_length=16,
        learning_rate=recipe.learning_rate,
        lr_scheduler_type=recipe.schedule,
        beta=recipe.beta,
        max_steps=recipe.steps,
        logging_steps=1,
        save_strategy="no",
        seed=1,
        disable_tqdm=True,
    )
    trainer = GRPOTrainer(
        model=Qwen2ForCausalLM.from_pretrained(reference, dtype=torch.float32),
        reward_funcs=share_of_a,
        args=config,
        train_dataset=prompts,
        processing_class=tokenizer,
        callbacks=[LearningRateJump(recipe)],
    )
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    return [row for row in trainer.state.log_history if "reward" in row]


def main() -> None:
    """Record every recipe, or those named, into the folder given."""
    folder, wanted = Path(sys.argv[1]), set(sys.argv[2:])
    torch.set_num_threads(1)
    random.seed(0)
    torch.manual_seed(0)
    tokenizer = make_tokenizer()
    with tempfile.TemporaryDirectory() as scratch:
        reference = Path(scratch) / "reference"
        print("teaching the reference model its toy language ...", flush=True)
        pretrain(tokenizer, reference)
        for recipe in RECIPES:
            if wanted and recipe.name not in wanted:
                continue
            print(f"{recipe.name}: {recipe.steps} GRPO steps ...", flush=True)
            rows = train(recipe, reference, tokenizer)
            with (folder / f"{recipe.name}.jsonl").open("w") as file:
                for row in rows:
                    kept = {"step": row["step"]}
                    kept.update({k: float(f"{row[k]:.6g}") for k in KEPT if row.get(k) is not None})
                    file.write(json.dumps(kept) + "\n")
            kls = [row["kl"] for row in rows]
            print(f"{recipe.name}: KL {kls[0]:.3g} -> {kls[-1]:.3g}, highest {max(kls):.3g}")


if __name__ == "__main__":
    main()
