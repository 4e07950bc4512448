"""Contexts: the texts on which the policy is measured, as token ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from klarm.settings import ConfigError

# Columns of a training set that may hold prompts, the best first. A complete text is measured as it
# is; a prompt is completed by the policy first.
_PROMPTS = ("prompt", "query", "question")
_TEXTS = ("input_ids", "text", "messages")


class Context(NamedTuple):
    """A text; the policy is measured on its predictions of all tokens from `start` to the end."""

    tokens: tuple[int, ...]
    start: int = 1

    @property
    def positions(self) -> int:
        """The number of next-token distributions that are compared."""
        return len(self.tokens) - self.start


def read_contexts(
    contexts: Sequence[object], tokenizer: Any, max_tokens: int
) -> list[tuple[int, ...]]:
    """Return the user's contexts as token ids, each cut to its last `max_tokens`."""
    if isinstance(contexts, (str, bytes)) or not isinstance(contexts, Sequence):
        raise ConfigError(
            "Probe: contexts must be a list of texts or of token ids, "
            f"got {type(contexts).__name__}"
        )
    read = [_tokens(context, tokenizer)[-max_tokens:] for context in contexts]
    kept = [tokens for tokens in read if tokens]
    if not kept:
        raise ConfigError("Probe: contexts is empty; give it some prompts of the run")
    return kept


def _tokens(context: object, tokenizer: Any) -> tuple[int, ...]:
    if isinstance(context, Sequence) and not isinstance(context, (str, bytes)):
        if context and isinstance(context[0], Mapping):  # a conversation
            template = getattr(tokenizer, "apply_chat_template", None)
            if template is None:
                raise ConfigError("Probe: conversations need a tokenizer with a chat template")
            text = template(list(context), tokenize=False, add_generation_prompt=True)
            return _tokens(text, tokenizer)
    elif isinstance(context, str):
        if tokenizer is None:
            raise ConfigError("Probe: contexts are texts; also give tokenizer=..., or token ids")
        tokenizer = getattr(tokenizer, "tokenizer", tokenizer)  # of a multimodal processor
        return tuple(int(token) for token in tokenizer(context)["input_ids"])
    if hasattr(context, "tolist"):  # a tensor or an array
        context = context.tolist()
    try:
        return tuple(int(token) for token in context)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        kind = type(context).__name__
        raise ConfigError(
            f"Probe: a context must be a text or a list of token ids, got {kind}"
        ) from None


def contexts_of_dataset(dataset: Any, count: int) -> tuple[list[object], bool] | None:
    """Return some rows of a training set, and whether they are prompts that need a completion.

    Returns None if that cannot be known. A stream is not read, because its rows would be lost.
    """
    if not (hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")):
        return None
    rows = len(dataset)
    if not rows:
        return None
    first = dataset[0]
    if not isinstance(first, Mapping):
        return None
    for columns, are_prompts in ((_PROMPTS, True), (_TEXTS, False)):
        column = next((name for name in columns if first.get(name) is not None), None)
        if column is not None:
            count = min(count, rows)
            places = [place * rows // count for place in range(count)]
            return [dataset[place][column] for place in places], are_prompts
    return None
