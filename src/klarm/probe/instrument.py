"""The instrument: measures a model on contexts, in batches that fit into memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from klarm.probe.contexts import Context
from klarm.probe.divergence import Measured, from_kept, from_logits, top_of
from klarm.probe.model import (
    Caller,
    free_memory,
    has_plain_start,
    is_out_of_memory,
    undisturbed,
    without_adapters,
)
from klarm.probe.reference import Kept

_Out = TypeVar("_Out")


class Instrument:
    """Samples completions, stores predictions and compares them, without affecting training.

    If memory runs out, it retries with half the batch size and keeps that size. With a single
    context per batch, it raises the error.
    """

    def __init__(
        self, model: Any, top_k: int, batch_size: int, say: Callable[[str], object]
    ) -> None:
        self.model = model
        self.has_adapters = has_plain_start(model)
        self._call = Caller(model)
        self._top_k = top_k
        self._batch_size = batch_size
        self._say = say

    def complete(self, prompts: Sequence[tuple[int, ...]], tokens: int, seed: int) -> list[Context]:
        """Return prompts with a completion that the policy samples now.

        Tokens are drawn from the full distribution with a separate random generator, so the same
        policy and seed give the same text.
        """

        def sample(batch: Sequence[tuple[int, ...]], first: int) -> list[tuple[int, ...]]:
            import torch

            generator = torch.Generator().manual_seed(seed + first)
            rows = list(batch)
            for _ in range(tokens):
                first_position = min(map(len, rows)) - 1
                logits = self._call.logits(rows, first_position)
                ends = [len(row) - 1 - first_position for row in rows]
                last = logits[range(len(rows)), ends].float().cpu()
                drawn = torch.multinomial(torch.softmax(last, -1), 1, generator=generator)
                rows = [(*row, int(token)) for row, token in zip(rows, drawn, strict=True)]
            return rows

        with undisturbed(self.model):
            whole = list(self._in_batches(prompts, sample))
        ends = _end_tokens(self.model)
        return [_until_end(row, len(row) - tokens, ends) for row in whole]

    def keep(self, contexts: Sequence[Context]) -> tuple[list[Kept], int]:
        """Return contexts with the predictions of the policy, and the size of its vocabulary."""
        import numpy as np

        if self.has_adapters:
            return [
                Kept(
                    context,
                    np.zeros((context.positions, 0), np.int32),
                    np.zeros((context.positions, 0), np.float32),
                    np.zeros(context.positions, np.float32),
                )
                for context in contexts
            ], 0
        sizes_seen = []

        def look(batch: Sequence[Context], _: int) -> list[Kept]:
            found = []
            for context, logits in self._logits(batch):
                sizes_seen.append(logits.shape[-1])
                found.append(Kept(context, *top_of(logits, self._top_k)))
            return found

        with undisturbed(self.model):
            return list(self._in_batches(contexts, look)), sizes_seen[-1]

    def compare(self, kept: Sequence[Kept]) -> list[Measured]:
        """Return the measurements of each context: the current policy against the start."""

        def look(batch: Sequence[Kept], _: int) -> list[Measured]:
            contexts = [one.context for one in batch]
            if not self.has_adapters:
                return [
                    from_kept(logits, one.top_ids, one.top_logps, one.rest_logp)
                    for one, (_, logits) in zip(batch, self._logits(contexts), strict=True)
                ]
            with without_adapters(self.model):
                before = [logits for _, logits in self._logits(contexts)]
            now = [logits for _, logits in self._logits(contexts)]
            return [from_logits(*both) for both in zip(now, before, strict=True)]

        with undisturbed(self.model):
            return list(self._in_batches(kept, look))

    def _logits(self, contexts: Sequence[Context]) -> Iterator[tuple[Context, Any]]:
        """Yield for each context the logits that predict its tokens after its `start`."""
        first = min(context.start for context in contexts) - 1
        logits = self._call.logits([context.tokens for context in contexts], first)
        for at, context in enumerate(contexts):
            begin = context.start - 1 - first
            yield context, logits[at, begin : begin + context.positions]

    def _in_batches(
        self, items: Sequence[Any], look: Callable[[Sequence[Any], int], list[_Out]]
    ) -> Iterator[_Out]:
        at = 0
        while at < len(items):
            batch = items[at : at + self._batch_size]
            try:
                found = look(batch, at)
            except (MemoryError, RuntimeError) as error:
                if self._batch_size == 1 or not is_out_of_memory(error):
                    raise
                self._batch_size = max(1, min(self._batch_size, len(batch)) // 2)
                self._say(
                    "the probe ran out of memory; it continues with "
                    f"{self._batch_size} of its contexts at a time"
                )
                error.__traceback__ = None  # it refers to the tensors to free
                free_memory()
                continue
            yield from found
            at += len(batch)


def _end_tokens(model: Any) -> set[int]:
    """Return the tokens that end a completion, as Hugging Face models name them."""
    for place in ("generation_config", "config"):
        ids = getattr(getattr(model, place, None), "eos_token_id", None)
        if ids is not None:
            return set(ids) if isinstance(ids, (list, tuple)) else {ids}
    return set()


def _until_end(row: tuple[int, ...], start: int, ends: set[int]) -> Context:
    """Return a text without the tokens that were sampled after its end."""
    found = (at for at, token in enumerate(row[start:], start) if token in ends)
    return Context(row[: next(found, len(row)) + 1], start)
