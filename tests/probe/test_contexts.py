"""What the policy is measured on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from cases import over
from klarm import ConfigError
from klarm.probe.contexts import Context, contexts_of_dataset, read_contexts


class Letters:
    """A tokenizer whose tokens are letters."""

    def __call__(self, text: str) -> dict[str, list[int]]:
        return {"input_ids": [ord(letter) for letter in text]}

    def apply_chat_template(self, messages: list[Any], **_: object) -> str:
        return "".join(message["content"] for message in messages) + ">"


def test_texts_token_ids_and_conversations_become_token_ids() -> None:
    """Whatever a data set holds."""
    chat = [{"role": "user", "content": "ab"}]
    assert read_contexts(["ab", [1, 2], (3,), chat], Letters(), 10) == [
        (97, 98),
        (1, 2),
        (3,),
        (97, 98, ord(">")),
    ]


def test_a_long_context_keeps_its_end() -> None:
    """The end of a prompt is what a completion follows."""
    assert read_contexts([[1, 2, 3, 4]], None, 2) == [(3, 4)]


@over(
    "contexts, message",
    [
        ("a text", "must be a list of texts or of token ids, got str"),
        (["a text"], "also give tokenizer="),
        ([], "contexts is empty"),
        ([[]], "contexts is empty"),
        ([3], "must be a text or a list of token ids, got int"),
        ([["a", "b"]], "must be a text or a list of token ids, got list"),
        ([[{"role": "user", "content": "a"}]], "a chat template"),
    ],
)
def test_what_is_no_context_is_refused_before_training(contexts: Any, message: str) -> None:
    """With what to do instead."""
    with pytest.raises(ConfigError, match=message):
        read_contexts(contexts, None, 10)


def test_a_context_counts_the_tokens_that_are_predicted() -> None:
    """Those of a completion, or all but the first."""
    assert Context((1, 2, 3)).positions == 2
    assert Context((1, 2, 3), 2).positions == 1


def test_prompts_are_taken_from_all_over_a_data_set() -> None:
    """They may be sorted by kind."""
    rows = [{"prompt": f"p{row}", "answer": row} for row in range(100)]
    assert contexts_of_dataset(rows, 4) == (["p0", "p25", "p50", "p75"], True)


def test_texts_that_are_trained_on_need_no_completion() -> None:
    """As SFT has them."""
    assert contexts_of_dataset([{"input_ids": [1, 2], "labels": [1, 2]}], 4) == ([[1, 2]], False)


@over("dataset", [None, [], [{"image": 1}], ["text"], 3])
def test_a_data_set_that_says_nothing_gives_none(dataset: object) -> None:
    """The probe then says what to give it."""
    assert contexts_of_dataset(dataset, 4) is None


def test_a_stream_is_not_read() -> None:
    """What is taken from it is gone."""

    class Stream:
        def __iter__(self) -> Iterator[dict[str, str]]:
            raise AssertionError

    assert contexts_of_dataset(Stream(), 4) is None
