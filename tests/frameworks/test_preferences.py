"""klarm within real TRL runs that learn from preferences: KTO and DPO."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch
from datasets import Dataset
from tiny_grpo import make_tokenizer, sentence
from transformers import PrinterCallback, Qwen2ForCausalLM
from trl import DPOConfig, DPOTrainer, KTOConfig, KTOTrainer

from klarm.integrations.trl import KlarmCallback
from recorded_lines import lines_of

STEPS = 60


def answers(count: int) -> list[tuple[str, str, str]]:
    """Return prompts, each with an answer that people would like and one they would not."""
    random.seed(1)
    found = [(sentence(2) + " ", sentence(3), sentence(3)) for _ in range(count)]
    return [(p, max(a, b, key=_liked), min(a, b, key=_liked)) for p, a, b in found]


def _liked(text: str) -> float:
    return text.count("a") / len(text)


def train(kind: str, reference: Path, folder: Path) -> None:
    torch.set_num_threads(1)
    common = {
        "output_dir": str(folder),
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "report_to": "none",
        "per_device_train_batch_size": 8,
        "learning_rate": 1e-5,
        "lr_scheduler_type": "constant",
        "max_steps": STEPS,
        "logging_steps": 1,
        "save_strategy": "no",
        "disable_tqdm": True,
    }
    if kind == "dpo":
        rows = [{"prompt": p, "chosen": good, "rejected": bad} for p, good, bad in answers(256)]
        make, config = DPOTrainer, DPOConfig(**common)
    else:
        rows = [
            {"prompt": p, "completion": text, "label": label}
            for p, good, bad in answers(128)
            for text, label in ((good, True), (bad, False))
        ]
        make, config = KTOTrainer, KTOConfig(**common)
    trainer = make(
        model=Qwen2ForCausalLM.from_pretrained(reference),
        ref_model=Qwen2ForCausalLM.from_pretrained(reference),
        args=config,
        train_dataset=Dataset.from_list(rows),
        processing_class=make_tokenizer(),
        callbacks=[KlarmCallback("run")],
    )
    trainer.remove_callback(PrinterCallback)
    trainer.train()


def test_the_kl_of_kto_is_a_sum_that_no_limit_per_token_judges(
    reference: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A healthy run opens no incident, and klarm says what the KL is."""
    train("kto", reference, tmp_path)
    kinds = [line["kinds"]["kl"] for line in lines_of("run", "binding") if "kl" in line["kinds"]]
    assert kinds[0] == {"target": "reference", "per": "sequence", "floored": True}
    said = capfd.readouterr().err
    assert "kl_budget is idle: kl is summed over the sequence" in said
    assert "as if KL were not measured" not in said
    assert [event for event in lines_of("run", "event") if event["event"] == "opened"] == []
    assert any("reward_margin" in row["metrics"] for row in lines_of("run", "step"))


def test_margins_and_accuracies_of_dpo_are_shown_and_disturb_nobody(
    reference: Path, tmp_path: Path
) -> None:
    """Whatever they do in a healthy run."""
    train("dpo", reference, tmp_path)
    rows = [row["metrics"] for row in lines_of("run", "step") if "loss" in row["metrics"]]
    assert len(rows) == STEPS
    assert all({"reward_margin", "reward_accuracy"} <= row.keys() for row in rows)
    assert [event for event in lines_of("run", "event") if event["event"] == "opened"] == []
