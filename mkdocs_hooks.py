"""What the site has that the pages do not: links to the repository, and the list of detectors."""

import re
from pathlib import Path

_OUTSIDE = re.compile(r"\]\((?:\.\./)+((?:examples/|src/|bench/|tests/)?[\w./-]+)\)")
_FILES = ("CONTRIBUTING.md", "README.md", "CHANGELOG.md", "LICENSE")
_FOLDERS = ("examples/", "src/", "bench/", "tests/")


def on_config(config, **_):
    """List the pages of all detectors."""
    pages = sorted(Path(config["docs_dir"], "detectors").glob("*.md"))
    for section in config["nav"]:
        if "Detectors" in section:
            section["Detectors"] = [f"detectors/{page.name}" for page in pages]
    return config


def on_page_markdown(markdown, config, **_):
    """Point what lies outside of docs/ to the repository."""

    def replaced(found):
        path = found[1]
        if path in _FILES or path.startswith(_FOLDERS):
            return f"]({config['repo_url']}/blob/main/{path})"
        return found[0]

    return _OUTSIDE.sub(replaced, markdown)
