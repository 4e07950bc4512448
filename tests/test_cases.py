"""Tests that run over many cases report all that is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from cases import over


@over("number, word", [(1, "one"), (2, "three"), (3, "four")])
def names(number: int, word: str, tmp_path: Path) -> None:
    assert tmp_path.exists()
    assert len(word) == number + 2, f"{word} has not {number + 2} letters"


def test_a_failure_names_every_wrong_case_and_no_other(tmp_path: Path) -> None:
    """The cases after the first wrong one are tried as well."""
    with pytest.raises(AssertionError) as failed:
        names(tmp_path=tmp_path)
    first, *wrong = str(failed.value).splitlines()
    assert first == "2 of 3 cases are wrong:"
    assert [line for line in wrong if line.startswith(("2, three: ", "3, four: "))] == [
        "2, three: three has not 4 letters",
        "3, four: four has not 5 letters",
    ]
