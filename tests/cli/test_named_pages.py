"""Messages refer to pages of the documentation by their path, and the pages exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from klarm.cli.init import default_yaml
from klarm.detectors import CATALOGUE

ROOT = Path(__file__).parents[2]


def texts() -> list[str]:
    """Return every string in the source; some are messages."""
    nodes = [node for path in (ROOT / "src").rglob("*.py") for node in ast.walk(tree_of(path))]
    constants = [node.value for node in nodes if isinstance(node, ast.Constant)]
    return [default_yaml(), *(value for value in constants if isinstance(value, str))]


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def test_the_pages_that_messages_name_exist() -> None:
    """So do those that `klarm detectors NAME` names."""
    named = {page for text in texts() for page in re.findall(r"\bdocs/[\w/-]+\.md", text)}
    assert {"docs/metrics.md", "docs/without-kl.md", "docs/channels/index.md"} <= named
    named |= {f"docs/detectors/{kind.name}.md" for kind in CATALOGUE}
    assert [page for page in sorted(named) if not (ROOT / page).is_file()] == []
