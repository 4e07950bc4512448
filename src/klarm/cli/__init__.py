"""The `klarm` command: one file a subcommand."""

from __future__ import annotations

import io
import os
import sys

import click

from klarm.cli.demo import demo
from klarm.cli.detectors import detectors
from klarm.cli.init import init
from klarm.cli.replay import replay
from klarm.settings import ConfigError
from klarm.sources import SourceError
from klarm.version import __version__

# As shells count a process that a signal ended.
_INTERRUPTED = 128 + 2
_PIPE_CLOSED = 128 + 13


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def klarm() -> None:
    """An alarm for RL post-training: GRPO, PPO, RLHF."""


for _command in (demo, init, replay, detectors):
    klarm.add_command(_command)


def main() -> None:
    """Run the command line: errors in one line, Ctrl-C and a closed pipe in silence."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that knows no σ gets a ?
    try:
        sys.exit(klarm.main(standalone_mode=False))
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (ConfigError, SourceError) as error:
        click.echo(f"klarm: {error}", err=True)
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(_INTERRUPTED)
    except BrokenPipeError:
        # Python flushes stdout once more at exit; give it somewhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(_PIPE_CLOSED)
