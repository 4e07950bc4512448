"""The `klarm` command and its subcommands."""

from __future__ import annotations

from typing import Any

import click

from klarm.cli.ack import ack
from klarm.cli.close import close
from klarm.cli.deliver import deliver
from klarm.cli.demo import demo
from klarm.cli.detectors import detectors
from klarm.cli.follow import follow
from klarm.cli.incidents import incidents
from klarm.cli.init import init
from klarm.cli.overview import runs
from klarm.cli.prune import prune
from klarm.cli.replay import replay
from klarm.cli.schema import schema
from klarm.cli.serve import serve
from klarm.cli.show import show
from klarm.cli.silence import silence
from klarm.cli.testalert import testalert
from klarm.journal import FormatError
from klarm.version import __version__


class _Group(click.Group):
    """A group whose commands end with one line where a journal has another format."""

    def invoke(self, context: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(context)
        except FormatError as error:
            raise click.ClickException(str(error)) from None


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def klarm() -> None:
    """An alarm for RL post-training: GRPO, PPO, RLHF."""


_COMMANDS = (
    demo,
    init,
    schema,
    replay,
    follow,
    detectors,
    serve,
    runs,
    show,
    incidents,
    ack,
    close,
    silence,
    deliver,
    testalert,
    prune,
)
for _command in _COMMANDS:
    klarm.add_command(_command)
