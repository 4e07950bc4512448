"""`klarm serve`: shows all runs on a local page."""

from __future__ import annotations

import threading
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

import click

from klarm.config import load
from klarm.terminal import echo
from klarm.text import clean_line

if TYPE_CHECKING:
    from klarm.server import PageServer

_OPEN_SECONDS = 0.5
_HOW_TO_INSTALL = (
    "pip install 'klarm[server]' (in a checkout: make page, then pip install -e '.[server]')"
)


@click.command()
@click.argument("directory", required=False, type=click.Path(path_type=Path))
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8421,
    show_default=True,
    help="0: any free one.",
)
@click.option(
    "--token",
    envvar="KLARM_SERVE_TOKEN",
    help="Required from every visitor. Prefer KLARM_SERVE_TOKEN: other users can see commands.",
)
@click.option(
    "--allow-host",
    "allowed_hosts",
    multiple=True,
    metavar="NAME",
    help="Another host name of the server, such as behind a proxy. May be repeated.",
)
@click.option("--open", "open_browser", is_flag=True, help="Open the page in a browser.")
def serve(
    directory: Path | None,
    host: str,
    port: int,
    token: str | None,
    allowed_hosts: tuple[str, ...],
    *,
    open_browser: bool,
) -> None:
    """Show all runs below DIRECTORY on a page, until Ctrl-C.

    By default, DIRECTORY is the folder where klarm records runs: klarm_runs, or as set by KLARM_DIR
    or klarm.yaml. Only this machine can reach the page, unless --host is given, which requires a
    token.
    """
    root = directory or Path(load(lenient=True).dir).expanduser()
    if directory is None:  # the first run may start later
        try:
            root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise click.ClickException(
                f"the folder of the runs, {clean_line(str(root))}, cannot be created "
                f"({error.strerror}); name another: klarm serve DIRECTORY"
            ) from None
    server = page_server(root, host, port, token, allowed_hosts)
    say_where(server, root)
    if open_browser:
        opener = threading.Timer(_OPEN_SECONDS, webbrowser.open, (server.url,))
        opener.daemon = True
        opener.start()
    server.run()


def page_server(
    root: Path,
    host: str = "127.0.0.1",
    port: int = 0,
    token: str | None = None,
    allowed_hosts: tuple[str, ...] = (),
) -> PageServer:
    """Return a server that is bound to its port, or raise ClickException with the reason."""
    try:
        from klarm.server import CannotServeError, PageServer
    except ModuleNotFoundError as error:
        missing = str(error.name).partition(".")[0]
        raise click.ClickException(f"the page needs {missing}: {_HOW_TO_INSTALL}") from None
    try:
        return PageServer(
            root, _say, host=host, port=port, token=token, allowed_hosts=allowed_hosts
        )
    except CannotServeError as error:
        raise click.UsageError(str(error)) from None


def say_where(server: PageServer, root: Path) -> None:
    """Print the address of the page, and what is missing."""
    echo(f"klarm shows the runs in {root} at {server.url} (Ctrl-C ends it)")
    if not server.has_runs:
        echo("There is no run yet. Runs appear on the page when they start.")
    if server.page.missing:
        echo(f"{server.page.missing} The API works without it.")


def _say(text: str) -> None:
    echo(f"klarm: {text}", err=True)
