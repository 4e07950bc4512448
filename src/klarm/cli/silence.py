"""`klarm silence`: nobody is told of a signal for a while."""

from __future__ import annotations

import getpass
import re
import time

import click

from klarm.cli.runs import find_run, started
from klarm.config import load
from klarm.delivery import deliveries
from klarm.delivery.deliveries import Silenced
from klarm.delivery.outbox import last_step
from klarm.detectors import CATALOGUE
from klarm.settings import did_you_mean

_SECONDS = {"m": 60, "min": 60, "h": 3600, "d": 86400}


@click.command()
@click.argument("signal")
@click.option(
    "--for", "span", required=True, metavar="SPAN", help="As in 200steps, 30min, 2h or 1d."
)
@click.option("--run", metavar="RUN", help="A run's name or folder; without it, the latest.")
@click.option("--even-critical", is_flag=True, help="Critical incidents too: NaN among them.")
@click.option("--by", metavar="NAME", help="Who says so; without it, the user of this command.")
def silence(signal: str, span: str, run: str | None, even_critical: bool, by: str | None) -> None:
    """Tell nobody of incidents on SIGNAL (kl, reward, entropy ...) for a while.

    They are recorded and shown all the same. Critical ones are told of unless --even-critical. What
    is still open when the silence ends is told then.
    """
    signals = sorted({kind.signal for kind in CATALOGUE})
    if signal not in signals:
        hint = did_you_mean(signal, signals) or f"; there are {', '.join(signals)}"
        raise click.UsageError(f"there is no signal {signal}{hint}")
    folder = find_run(run, load())
    head = started(folder)
    now = time.time()
    until_step, until_time = _parse(span, last_step(folder), now)
    entry = Silenced(
        began=head.started,
        signal=signal,
        by=by or getpass.getuser(),
        time=now,
        until_step=until_step,
        until_time=until_time,
        even_critical=even_critical,
    )
    try:
        deliveries.append(folder, entry)
    except OSError as error:
        raise click.ClickException(f"cannot write {folder}: {error.strerror}") from None
    until = (
        f"step {until_step}"
        if until_time is None
        else time.strftime("%Y-%m-%d %H:%M", time.localtime(until_time))
    )
    but = "critical ones too" if even_critical else "critical ones are told of all the same"
    click.echo(f"run {head.run}: {signal} is silent until {until}; {but}")


def _parse(span: str, step: int | None, now: float) -> tuple[int | None, float | None]:
    """Return the step or the time until which a span reaches."""
    found = re.fullmatch(r"(\d+)\s*(steps?|m|min|h|d)", span.strip())
    if found is None or not int(found[1]):
        raise click.BadParameter(f"{span!r} is no span; try 200steps, 30min, 2h or 1d")
    count, unit = int(found[1]), found[2]
    if unit.startswith("step"):
        return (step or 0) + count, None
    return None, now + count * _SECONDS[unit]
