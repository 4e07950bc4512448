"""How a notebook shows an object: as a small HTML table in which all text is escaped."""

from __future__ import annotations

from collections.abc import Iterable

from klarm.text import clean_line


def html_table(title: str, rows: Iterable[tuple[str, str]]) -> str:
    """Return a title and rows of two cells as HTML, with their content shown as text.

    >>> html_table("run <b>", [("steps", "3")])
    '<table><caption><b>run &lt;b&gt;</b></caption><tr><th>steps</th><td>3</td></tr></table>'
    """
    from html import escape

    def cell(text: str) -> str:
        return escape(clean_line(text))

    body = "".join(f"<tr><th>{cell(name)}</th><td>{cell(text)}</td></tr>" for name, text in rows)
    return f"<table><caption><b>{cell(title)}</b></caption>{body}</table>"
