"""The words of code and docs: names that explain themselves, pages that can be scanned."""

from __future__ import annotations

import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
SOURCE = sorted((ROOT / "src" / "klarm").rglob("*.py"))
# Code that is not in the package: its names are held to less.
AROUND = [
    path
    for folder in ("bench", "examples", "recordings", "tests", "web/src")
    for path in sorted((ROOT / folder).rglob("*"))
    if path.suffix in {".py", ".ts", ".tsx"}
]
PAGES = [*sorted(DOCS.rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
PROSE = [
    *(path for path in [*SOURCE, *AROUND] if path != Path(__file__)),
    *PAGES,
    *(ROOT / name for name in ("CHANGELOG.md", "Makefile")),
]

# Names that nobody understood, and superlatives where a limit is a maximum or a minimum.
RIDDLES = re.compile(r"spoilt|stumble|together|graver|anybodys", re.IGNORECASE)
NOT_MAX_OR_MIN = re.compile(
    r"_?([A-Z]+_)*(MOST|LEAST|LARGEST|SMALLEST|HIGHEST|LOWEST|LONGEST|SHORTEST|FEWEST|WIDEST"
    r"|NARROWEST)(_[A-Z]+)*"
)
# "One line a step" where "one line per step" is meant.
COUNTED = (
    "batch|block|byte|call|channel|character|dict|environment|event|file|key|kind|line|message"
    "|metric|minute|nat|object|process|purpose|row|run|second|step|thread|token|update|value"
)
RATE_WITHOUT_PER = re.compile(
    rf"(?<!in )\b(one|an?|two|three|ten|several|\d+) (\w+ )?({COUNTED})e?s? an? ({COUNTED})\b"
    rf"|\bone an? ({COUNTED})\b|\banew\b",
    re.IGNORECASE,
)
# What readers had to read twice.
ODD = re.compile(
    r"\b(told of|told again|last told|owed|owes|spoilt|mended|whoever|for good(?! reason)|whisper"
    r"|so many (rows|seconds|steps|times|values)|nothing was told|confirmed it by itself"
    r"|(no longer is|is no more)(?=[.,;])|yet to be|in hand|\d+ \d+ times|x?\d(\.\d+)?e\+\d+)\b",
    re.IGNORECASE,
)
MAX_WORDS_IN_A_CELL = 60
MAX_WORDS_IN_A_PARAGRAPH = 115
# Lines from the top of a page within which there is something to copy, or a table.
MAX_INTRODUCTION = 25


@pytest.mark.parametrize("path", SOURCE, ids=lambda path: str(path.relative_to(ROOT)))
def test_names_are_no_riddles_and_limits_are_max_or_min(path: Path) -> None:
    """In the whole package."""
    names = names_in(path)
    assert [name for name in names if RIDDLES.search(name)] == []
    assert [name for name in names if NOT_MAX_OR_MIN.fullmatch(name)] == []


@pytest.mark.parametrize("path", AROUND, ids=lambda path: str(path.relative_to(ROOT)))
def test_limits_are_max_or_min_around_the_package_too(path: Path) -> None:
    """In the page, the benchmarks, the tests and the examples."""
    assert [name for name in names_in(path) if NOT_MAX_OR_MIN.fullmatch(name)] == []


def names_in(path: Path) -> set[str]:
    """Return the names that a file uses; of TypeScript, all its words."""
    if path.suffix != ".py":
        return set(re.findall(r"\w+", path.read_text()))
    tokens = tokenize.generate_tokens(io.StringIO(path.read_text()).readline)
    return {token.string for token in tokens if token.type == tokenize.NAME}


@pytest.mark.parametrize("path", PROSE, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_rate_says_per(path: Path) -> None:
    """In prose, comments and strings, also across the end of a line."""
    assert found(RATE_WITHOUT_PER, prose(path)) == []


@pytest.mark.parametrize("path", [*SOURCE, *PAGES], ids=lambda path: str(path.relative_to(ROOT)))
def test_phrases_are_plain(path: Path) -> None:
    """In what users read, and in docstrings and comments of the package."""
    assert found(ODD, prose(path)) == []


def prose(path: Path) -> str:
    """Return a file with its lines joined, without what begins a line of a comment."""
    return re.sub(r"\s*\n\s*(#:?|//|\*)?\s*", " ", path.read_text())


def found(phrases: re.Pattern[str], text: str) -> list[str]:
    """Return each phrase with the words around it."""
    return [text[max(0, m.start() - 30) : m.end() + 30] for m in phrases.finditer(text)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_cell_of_a_table_can_be_scanned(page: Path) -> None:
    """What takes more words is a section of its own."""
    for line in page.read_text().splitlines():
        if line.startswith("|"):
            for cell in re.split(r"(?<!\\)\|", re.sub(r"\]\([^)]*\)", "]", line.strip("|"))):
                assert len(cell.split()) < MAX_WORDS_IN_A_CELL, cell


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_begins_with_something_to_copy_or_to_scan(page: Path) -> None:
    """A block of code, a table or the reference of a function, after a short introduction."""
    lines = page.read_text().splitlines()[:MAX_INTRODUCTION]
    assert any(line.startswith(("```", "|", ":::")) for line in lines)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_paragraph_is_short(page: Path) -> None:
    """What lists conditions is a table, and what has two ideas is two paragraphs."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for paragraph in re.split(r"\n\s*\n|\n(?=\s*(?:- |\d+\. |\|))", text):
        assert len(paragraph.split()) <= MAX_WORDS_IN_A_PARAGRAPH, paragraph


def test_the_constants_of_kl_runaway_have_their_reason_beside_them() -> None:
    """Those of settings, too: in a comment on the line before, or on its own."""
    lines = (ROOT / "src" / "klarm" / "detectors" / "kl_runaway.py").read_text().splitlines()
    number = re.compile(r"(_[A-Z_]+|    [a-z_]+: (float|int)) = (\d|setting\()")
    constants = [at for at, line in enumerate(lines) if number.match(line)]
    assert len(constants) >= 18
    bare = [at for at in constants if "#" not in lines[at - 1] + lines[at]]
    assert [lines[at] for at in bare] == []
