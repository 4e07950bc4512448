"""The one place that writes to a terminal. All text is cleaned, so that none is a command to it.

`write_stderr` and `show_on_stderr` are for the training process. They never wait for a reader,
because a pipe that nobody reads fills up: what is not taken immediately is written later by a
thread, and dropped if that becomes too much. `echo` and the console of `rich_console` are for
commands, which may wait.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import stat
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TextIO

from klarm.nonblocking import write_now
from klarm.text import clean, spell_unsafe

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

# Clears a progress bar from the line; it redraws itself.
_CLEAR_LINE = "\r\x1b[K"
_BELL = "\a"
# What curves and tables are drawn with, one character for one, so that columns stay aligned.
_IN_ASCII = str.maketrans("●×│└─━═░≤–→←…▁▂▃▄▅▆▇█", "*x|+-==.<-><~_.,-=+*#")


@contextlib.contextmanager
def keeping_random_state() -> Iterator[None]:
    """Leave Python's random numbers as they are: rich draws some when it is imported or used.

    A seeded training must not depend on whether klarm writes to a terminal.
    """
    import random

    state = random.getstate()
    try:
        yield
    finally:
        random.setstate(state)


def write_stderr(text: str, end: str = "\n", *, bell: bool = False) -> bool:
    """Write to stderr as much as it takes without waiting; return whether that was everything."""
    return _write_at_once(f"{_BELL * bell}{_wrapped(clean(text), sys.stderr)}{end}")


def show_on_stderr(panel: RenderableType) -> None:
    """Show an object of rich, as far as stderr takes it without waiting."""
    # stderr may be any object
    with contextlib.suppress(Exception), keeping_random_state():
        console = rich_console(stderr=True)
        with console.capture() as captured:
            console.print(panel)
        _write_at_once(captured.get())


def stderr_is_terminal() -> bool:
    """Return whether stderr is a terminal."""
    return _is_terminal(sys.stderr)


def wrapped(text: str, *, err: bool = False) -> str:
    """Return a text for `echo`, with its lines broken at spaces if it goes to a terminal."""
    return _wrapped(clean(text), sys.stderr if err else sys.stdout)


class Styled(str):
    """A clean text with klarm's own colour codes, made by `styled`."""

    __slots__ = ()


def styled(text: str, **style: Any) -> Styled:
    """Return a text in a colour, for `echo`."""
    import click

    return Styled(click.style(clean(text), **style))


def echo(*parts: str, err: bool = False, nl: bool = True) -> None:
    """Print text for a command on stdout or stderr, waiting if necessary."""
    import click

    text = "".join(part if isinstance(part, Styled) else clean(part) for part in parts)
    click.echo(text, err=err, nl=nl)


def echo_json(document: object) -> None:
    """Print a JSON document, with unsafe characters escaped as in JSON."""
    import json

    import click

    text = json.dumps(document, indent=2, ensure_ascii=False)
    click.echo(spell_unsafe(text, lambda character: json.dumps(character)[1:-1]))


def echo_progress(text: str = "") -> None:
    """Show the progress of a command in place of the last one; without text, remove it."""
    if stderr_is_terminal():
        import click

        click.echo(f"{_CLEAR_LINE}{clean(text)}", nl=False, err=True)


def rich_console(*, stderr: bool = False) -> Console:
    """Return a console of rich that cleans every text. The styles are klarm's own.

    Where the encoding has no characters to draw with, ASCII ones take their place. Lines that go to
    a file or a pipe have no trailing spaces.
    """
    from rich.console import Console
    from rich.text import Text

    class CleanConsole(Console):
        def print(self, *args: Any, **kwargs: Any) -> None:
            if self.is_terminal or self.is_jupyter:
                super().print(*args, **kwargs)
                return
            with self.capture() as captured:
                super().print(*args, **kwargs)
            stripped = "\n".join(line.rstrip(" ") for line in captured.get().split("\n"))
            super().print(Text(stripped), end="", soft_wrap=True)

        def render(self, *args: Any, **kwargs: Any) -> Any:
            ascii_only = self.options.ascii_only
            for segment in super().render(*args, **kwargs):
                if segment.control is not None:
                    yield segment
                    continue
                text = clean(segment.text)
                yield segment._replace(text=text.translate(_IN_ASCII) if ascii_only else text)

    return CleanConsole(stderr=stderr)


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except (AttributeError, ValueError):  # no stream at all, or a closed one
        return False


def _wrapped(text: str, stream: TextIO) -> str:
    """Return a text with its lines broken at spaces, if a stream is a terminal of known width.

    A terminal itself breaks lines within words, such as the names of metrics.
    """
    width = _width_of(stream)
    if not width:
        return text
    return "\n".join(broken for line in text.split("\n") for broken in _broken(line, width))


def _broken(line: str, width: int) -> list[str]:
    """Return a line as lines of at most `width` columns, indented alike. Words stay whole."""
    indent = line[: len(line) - len(line.lstrip(" "))]
    lines: list[str] = []
    current, columns = indent, len(indent)
    for spaces, word in re.findall(r"( *)([^ ]+)", line[len(indent) :]):
        needed = _columns_of(word)
        if current != indent and columns + len(spaces) + needed > width:
            lines.append(current)
            current, columns = indent + word, len(indent) + needed
        else:
            current += spaces + word
            columns += len(spaces) + needed
    return [*lines, current]


def _columns_of(text: str) -> int:
    """Return how many columns a terminal needs for a text: two for 验 or an emoji, for example."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _width_of(stream: TextIO) -> int:
    """Return the width of a terminal; 0 if a stream is none, or of unknown width."""
    if not _is_terminal(stream):
        return 0
    with contextlib.suppress(ValueError):
        if (given := int(os.environ.get("COLUMNS", ""))) > 0:
            return given
    with contextlib.suppress(AttributeError, OSError, ValueError):
        return os.get_terminal_size(stream.fileno()).columns
    return 0


def _write_at_once(text: str) -> bool:
    with contextlib.suppress(Exception):  # stderr may be any object, and closed
        if stderr_is_terminal():
            text = _CLEAR_LINE + text
        file = _blocking_file()
        if file is not None:
            return write_now(file, text.encode(sys.stderr.encoding or "utf-8", "replace"))
        try:
            sys.stderr.write(text)
        except UnicodeEncodeError:  # its encoding has no σ
            sys.stderr.write(text.encode("ascii", "replace").decode())
        sys.stderr.flush()
        return True
    return False


def _blocking_file() -> int | None:
    """Return the descriptor behind stderr if a write to it may wait for a reader."""
    if not isinstance(sys.stderr, io.TextIOWrapper):  # a notebook's, a logger's, a test's
        return None
    if not hasattr(os, "O_NONBLOCK"):  # on Windows, only sockets can be polled
        return None
    try:
        file = sys.stderr.fileno()
        mode = os.fstat(file).st_mode
    except (OSError, ValueError):
        return None
    return file if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or stat.S_ISSOCK(mode) else None
