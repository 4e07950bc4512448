"""Links from the pages to files of the repository: on the site they lead to its address."""

import re

_OUTSIDE = re.compile(r"\]\((?:\.\./)+((?:examples/|src/|bench/|tests/)?[\w./-]+)\)")
_FILES = ("CONTRIBUTING.md", "README.md", "CHANGELOG.md", "LICENSE")
_FOLDERS = ("examples/", "src/", "bench/", "tests/")


def on_page_markdown(markdown, config, **_):
    """Point what lies outside of docs/ to the repository."""

    def replaced(found):
        path = found[1]
        if path in _FILES or path.startswith(_FOLDERS):
            return f"]({config['repo_url']}/blob/main/{path})"
        return found[0]

    return _OUTSIDE.sub(replaced, markdown)
