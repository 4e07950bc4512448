"""Other ways to measure the probe's KL, beside the trainer's: which of them agrees best?

`make bench-probe OPTIONS=variants` trains eight runs with seeds that nothing is reported on. After
every step the policy is compared with its reference over the full vocabulary:

- forward: KL(start ‖ now) on 8 completions of the start, which is what the probe logs
- forward 32: the same on 32 completions
- reverse: KL(now ‖ start) on the 8 completions of the start
- on-policy: KL(now ‖ start) on 8 completions that the policy writes now, which is what the trainer
  estimates from the tokens that it has drawn
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import PrinterCallback, TrainerCallback, set_seed

from framework_runs.run import Run
from framework_runs.trl import _TRAINERS, _Observer, _reference
from klarm.probe import contexts_of_dataset
from klarm.probe.contexts import Context
from klarm.probe.instrument import Instrument

VARIANTS = ("forward", "forward 32", "reverse", "on-policy")
_SIZE, _LARGE, _TOKENS, _NEW_TOKENS = 8, 32, 32, 16


class Variants(TrainerCallback):
    """Measures after every step, and keeps the trainer's KL of the same step beside it."""

    def __init__(self, trainer: Any) -> None:
        self.rows: list[dict[str, float]] = []
        self._model, self._start = trainer.model, trainer.ref_model.eval()
        self._instrument = Instrument(self._model, 32, 8, print)
        found = contexts_of_dataset(trainer.train_dataset, 8 * _SIZE)
        assert found is not None
        tokenizer = trainer.processing_class
        self._pool = [tuple(tokenizer(prompt)["input_ids"]) for prompt in found[0]]
        self._fixed = self._instrument.complete(self._pool[:_LARGE], _TOKENS, 0)

    def on_step_end(self, args, state, control, **_):  # noqa: ARG002
        step = state.global_step
        was_training, random_state = self._model.training, torch.get_rng_state()
        self._model.eval()
        forward, reverse = self._compare(self._fixed)
        new = self._instrument.complete(self._pool[:_SIZE], _NEW_TOKENS, 1_000 * step)
        values = (
            _mean(forward[:_SIZE]), _mean(forward), _mean(reverse[:_SIZE]),
            _mean(self._compare(new)[1]),
        )  # fmt: skip
        self.rows.append(dict(zip(VARIANTS, values, strict=True)))
        self._model.train(was_training)
        torch.set_rng_state(random_state)

    def on_log(self, args, state, control, logs=None, **_):  # noqa: ARG002
        if self.rows and "kl" in (logs or {}):
            self.rows[-1]["kl"] = logs["kl"]

    @torch.no_grad()
    def _compare(self, contexts: Sequence[Context]) -> tuple[list[float], list[float]]:
        forward, reverse = [], []
        for context in contexts:
            ids, first = torch.tensor([context.tokens]), context.start - 1
            start, now = (
                model(input_ids=ids).logits[0, first:-1].double().log_softmax(-1)
                for model in (self._start, self._model)
            )
            forward.append(float((start.exp() * (start - now)).sum(-1).mean()))
            reverse.append(float((now.exp() * (now - start)).sum(-1).mean()))
        return forward, reverse


def measured(run: Run, known: Path, adapt: Any) -> list[dict[str, float]]:
    """Train a run, unless its file is there, and return its rows."""
    if not known.exists():
        torch.set_num_threads(1)
        _reference()  # has a seed of its own
        set_seed(run.seed)
        with tempfile.TemporaryDirectory() as folder:
            trainer = _TRAINERS["GRPO"](run, folder)
            if run.setting.startswith("lora"):
                adapt(trainer)
            variants = Variants(trainer)
            for callback in (_Observer(run), variants):
                trainer.add_callback(callback)
            trainer.remove_callback(PrinterCallback)
            trainer.train()
        known.parent.mkdir(parents=True, exist_ok=True)
        known.write_text(json.dumps([row for row in variants.rows if "kl" in row]))
    rows: list[dict[str, float]] = json.loads(known.read_text())
    return rows


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
