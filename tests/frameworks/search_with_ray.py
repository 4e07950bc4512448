"""A search for hyperparameters by a Hugging Face trainer and Ray Tune: two trials in turn."""

from __future__ import annotations

from typing import Any

import ray
import torch
from transformers import Trainer, TrainingArguments

from klarm.integrations.trl import KlarmCallback


class Line(torch.nn.Module):
    """The smallest model a trainer takes."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"loss": ((self.layer(x) - labels) ** 2).mean()}


def main() -> None:
    ray.init(num_cpus=1, include_dashboard=False)
    rows: list[dict[str, Any]] = [{"x": [float(i)], "labels": [2.0 * i]} for i in range(8)]
    args = TrainingArguments(
        output_dir="out", max_steps=3, logging_steps=1, report_to="none", use_cpu=True
    )
    trainer = Trainer(
        model_init=Line,
        args=args,
        train_dataset=rows,
        eval_dataset=rows,
        callbacks=[KlarmCallback()],
    )
    trainer.hyperparameter_search(
        hp_space=lambda _: {"learning_rate": ray.tune.loguniform(1e-4, 1e-2)},
        compute_objective=lambda found: found["eval_loss"],
        backend="ray",
        n_trials=2,
        resources_per_trial={"cpu": 1},
    )


if __name__ == "__main__":
    main()
