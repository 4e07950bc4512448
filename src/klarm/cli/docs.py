"""`klarm docs`: shows the pages of the documentation of this version.

A terminal gets them laid out, a file or a pipe as Markdown.
"""

from __future__ import annotations

import re
from pathlib import Path

import click

from klarm.settings import did_you_mean
from klarm.terminal import echo, rich_console
from klarm.text import clean

# A comment on a line of its own takes the line with it. Blocks of code are matched first, so that
# what they show is left alone.
_CODE_OR_COMMENT = re.compile(
    r"(?P<code>^```.*?^```)|^<!--.*?-->[ \t]*\n|<!--.*?-->", re.MULTILINE | re.DOTALL
)
# Where the pages are: inside an installed package, or beside `src` in a checkout.
_PLACES = (Path(__file__).parents[1] / "docs", Path(__file__).parents[3] / "docs")


def _complete(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in pages() if name.startswith(incomplete)]


@click.command()
@click.argument("page", required=False, shell_complete=_complete)
def docs(page: str | None) -> None:
    """Print PAGE of the documentation, or the list of pages."""
    known = pages()
    if not known:
        raise click.ClickException("this installation has no pages; reinstall klarm")
    if page is None:
        width = max(map(len, known))
        for name, path in known.items():
            echo(f"{name:<{width}}  {_title(path)}")
        return
    name = page.removeprefix("docs/").removesuffix(".md").rstrip("/")
    by_last_part = {known_name.rpartition("/")[2]: known_name for known_name in known}
    found = known.get(name) or known.get(f"{name}/index") or known.get(by_last_part.get(name, ""))
    if found is None:
        hint = did_you_mean(name, [*known, *by_last_part]) or "; `klarm docs` lists the pages"
        raise click.ClickException(f"there is no page {page}{hint}")
    text = without_comments(found.read_text(encoding="utf-8"))
    console = rich_console()
    if console.is_terminal:
        from rich.markdown import Markdown

        console.print(Markdown(clean(text), hyperlinks=False))
    else:
        echo(text, nl=False)


def without_comments(text: str) -> str:
    """Return a page without HTML comments, which are remarks for tools."""
    return _CODE_OR_COMMENT.sub(lambda found: found["code"] or "", text)


def pages() -> dict[str, Path]:
    """Return the pages by name: `metrics`, `detectors/kl_explosion`."""
    place = next((place for place in _PLACES if (place / "index.md").is_file()), None)
    if place is None:
        return {}
    found = sorted(place.rglob("*.md"))
    return {path.relative_to(place).with_suffix("").as_posix(): path for path in found}


def _title(path: Path) -> str:
    first = path.read_text(encoding="utf-8").partition("\n")[0]
    return first.removeprefix("#").strip()
