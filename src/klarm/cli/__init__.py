"""The `klarm` command: one file per subcommand."""

from __future__ import annotations

import os
import sys

# The exit code that shells report for a process that a signal ended.
_INTERRUPTED = 128 + 2
_PIPE_CLOSED = 128 + 13


def main() -> None:
    """Run the command line. Errors are one line; Ctrl-C and a closed pipe end it silently."""
    try:
        sys.exit(_run())
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    except BrokenPipeError:
        # Python flushes stdout again at exit, which must not fail.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(_PIPE_CLOSED)


def _run() -> int:
    # The import takes a moment, so it happens here, where Ctrl-C is handled.
    import io

    import click

    from klarm.cli.group import klarm
    from klarm.settings import ConfigError
    from klarm.sources import SourceError
    from klarm.terminal import echo

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal whose encoding has no σ shows a ?
    try:
        klarm.main(standalone_mode=False)
    except click.ClickException as error:
        shown = io.StringIO()
        error.show(shown)
        echo(shown.getvalue(), nl=False, err=True)
        return error.exit_code
    except (ConfigError, SourceError) as error:
        echo(f"klarm: {error}", err=True)
        return 2
    except click.Abort:
        return _INTERRUPTED
    return 0
