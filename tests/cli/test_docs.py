"""`klarm docs`: an installed klarm has the pages that its messages refer to."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cli.commands import run_on_terminal
from klarm.cli.docs import pages, without_comments
from klarm.cli.group import klarm as command
from klarm.cli.init import default_yaml

ROOT = Path(__file__).parents[2]


def docs(*arguments: str) -> Result:
    return CliRunner().invoke(command, ["docs", *arguments])


def test_all_pages_are_listed_with_their_titles() -> None:
    """The names in the list can be used to print the pages."""
    lines = docs().stdout.splitlines()
    assert len(lines) == len(list((ROOT / "docs").rglob("*.md")))
    assert any(line.split() == ["detectors/kl_explosion", "kl_explosion"] for line in lines)


@pytest.mark.parametrize(
    "name", ["metrics", "docs/metrics.md", "kl_explosion", "slack", "channels"]
)
def test_a_page_is_printed(name: str) -> None:
    """A page is found by its name, its path, or the last part of its name."""
    done = docs(name)
    assert done.exit_code == 0
    assert done.stdout.startswith("# ")


def test_a_terminal_gets_a_page_that_fits_it() -> None:
    """Lines break between words, and tables are drawn; a pipe gets Markdown, as above."""
    code, shown = run_on_terminal("docs", "kl_runaway", columns=80)
    assert code == 0
    shown = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert max(map(len, shown.splitlines())) <= 80
    assert re.search(r"^What to do when it fires *$", shown, re.M)
    assert "|---" not in shown
    words = set(re.findall(r"[a-z]+", (ROOT / "docs/detectors/kl_runaway.md").read_text()))
    assert set(re.findall(r"[a-z]+", shown)) <= words


def test_html_comments_are_not_printed() -> None:
    """Comments are remarks for tools. Those in code examples are printed."""
    text = (ROOT / "docs" / "tutorial.md").read_text()
    assert "<!--" in text
    printed = docs("tutorial").stdout
    assert "<!--" not in printed
    assert printed.count("```") == text.count("```")
    example = "Before <!-- a\nremark --> after.\n\n```html\n<!-- kept -->\n```\n"
    assert without_comments(example) == "Before  after.\n\n```html\n<!-- kept -->\n```\n"


def test_the_error_for_a_wrong_name_suggests_the_nearest() -> None:
    """The error is one line."""
    done = docs("metrcs")
    assert done.exit_code == 1
    assert "there is no page metrcs; did you mean metrics?" in done.output


def texts() -> list[tuple[str, str]]:
    """Return every string in the source that is not a docstring; some are messages."""
    found = []
    for path in (ROOT / "src").rglob("*.py"):
        tree = ast.parse(path.read_text())
        nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Expr)]
        docstrings = {id(node.value) for node in nodes if isinstance(node.value, ast.Constant)}
        found += [
            (path.name, node.value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in docstrings
        ]
    return [*found, ("klarm.yaml", default_yaml())]


def test_messages_point_to_pages_that_an_installed_user_has() -> None:
    """They name `klarm docs PAGE`, never a path in the repository."""
    found = texts()
    pointers = [
        (where, page)
        for where, text in found
        for page in re.findall(r"`?klarm docs ([\w/-]+)", text)
    ]
    assert len(pointers) >= 3
    for page in {page for _, page in pointers}:
        places = {where for where, named in pointers if named == page}
        assert docs(page).exit_code == 0, f"{places} point to {page}"
    for where, text in found:
        assert not re.search(r"(?<![\w/.])docs/[a-z_]+(\.md|\b)", text), f"{where}: {text[:80]}"


def test_the_wheel_has_the_pages() -> None:
    """They are inside the package, where the command looks first."""
    text = (ROOT / "pyproject.toml").read_text()
    assert '"docs" = "klarm/docs"' in text
    assert pages()
