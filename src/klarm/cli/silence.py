"""`klarm silence`: holds back notifications about a signal for a while."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from klarm.cli.options import by_option, config_option, run_option
from klarm.cli.runs import command_by, find_run, send_command, view_of
from klarm.config import load
from klarm.delivery import Silence, parse_span, silence_in_words
from klarm.settings import did_you_mean
from klarm.terminal import echo

if TYPE_CHECKING:
    from klarm.runs import RunView


@click.command()
@click.argument("signal")
@click.option("--for", "span", metavar="SPAN", help="How long: 200steps, 30min, 2h or 1d.")
@click.option("--off", is_flag=True, help="End the silences of SIGNAL now.")
@run_option
@config_option
@click.option("--even-critical", is_flag=True, help="Also silence critical incidents, such as NaN.")
@by_option("silences")
def silence(
    *,
    signal: str,
    span: str | None,
    off: bool,
    run: str | None,
    config_file: Path | None,
    even_critical: bool,
    by: str,
) -> None:
    """Notify nobody of incidents on SIGNAL (kl, reward, entropy ...) for a while.

    SIGNAL may also be a detector or a metric of the signal, such as grad_norm for gradient.

    Incidents are still recorded and shown. Critical ones are still sent, unless --even-critical is
    given. Incidents that are open when the silence ends, or is ended by --off, are sent then.
    """
    if off and (span is not None or even_critical):
        raise click.UsageError(
            "--off ends all silences of a signal and takes neither --for nor --even-critical"
        )
    if span is None and not off:
        raise click.UsageError("give a duration, as in --for 2h, or end a silence with --off")
    view = view_of(find_run(run, load(config_file, lenient=True)))
    name, signal = signal, _signal_meant(signal, view)
    if span is None:
        silent = sorted({silence.signal for silence in view.silences()})
        if signal not in silent:
            others = f"; silenced: {', '.join(silent)}" if silent else ""
            raise click.ClickException(f"run {view.name}: {signal} is not silenced{others}")
        send_command(view.folder, command_by(by, "silence_off", signal=signal))
        echo(
            f"run {view.name}: {signal} is no longer silenced; incidents that were held back and "
            "are still open are sent now, by the run or by klarm deliver"
        )
        return
    try:
        until_step, until_time = parse_span(span, view.fold.last_step, time.time())
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    silence = Silence(signal, by, until_step, until_time, even_critical)
    send_command(view.folder, command_by(kind="silence", **silence._asdict()))
    if name != signal:
        echo(f"{name} belongs to {signal}: all of {signal} is silenced")
    echo(f"run {view.name}: {silence_in_words(silence)}")


def _signal_meant(name: str, view: RunView) -> str:
    """Return a signal by its name, or by that of a detector, a metric or an incident of the run.

    Raise UsageError if there is none.
    """
    meant = view.signals
    if name not in meant:
        signals = sorted(set(meant.values()))
        hint = did_you_mean(name.lower(), meant) or f"; choose from {', '.join(signals)}"
        raise click.UsageError(f"there is no signal {name}{hint}")
    return meant[name]
