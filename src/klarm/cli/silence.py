"""`klarm silence`: holds back notifications about a signal for a while."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

import click

from klarm.cli.options import by_option, config_option, run_option
from klarm.cli.runs import command_by, find_run, send_command, started, view_of
from klarm.config import load
from klarm.delivery import Silence, last_step, parse_span, silence_in_words
from klarm.detectors import CATALOGUE, known_signals
from klarm.incidents import subject_of
from klarm.settings import did_you_mean
from klarm.terminal import echo


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
    name, signal = signal, _signal_meant(signal) or _signal_of_run(signal, run, config_file)
    if off and (span is not None or even_critical):
        raise click.UsageError(
            "--off ends all silences of a signal and takes neither --for nor --even-critical"
        )
    if span is None and not off:
        raise click.UsageError("give a duration, as in --for 2h, or end a silence with --off")
    folder = find_run(run, load(config_file, lenient=True))
    named = f"run {started(folder).run}"
    if span is None:
        silent = sorted({silence.signal for silence in view_of(folder).silences()})
        if signal not in silent:
            others = f"; silenced: {', '.join(silent)}" if silent else ""
            raise click.ClickException(f"{named}: {signal} is not silenced{others}")
        send_command(folder, command_by(by, "silence_off", signal=signal))
        echo(
            f"{named}: {signal} is no longer silenced; incidents that were held back and "
            "are still open are sent now, by the run or by klarm deliver"
        )
        return
    try:
        until_step, until_time = parse_span(span, last_step(folder), time.time())
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    silence = Silence(signal, by, until_step, until_time, even_critical)
    send_command(folder, command_by(kind="silence", **silence._asdict()))
    if name != signal:
        echo(_belongs_to(name, signal))
    echo(f"{named}: {silence_in_words(silence)}")


def _signal_meant(name: str) -> str | None:
    """Return a signal by its name, or by the name of one of its detectors or metrics."""
    meant = {kind.watches[0]: kind.signal for kind in reversed(CATALOGUE) if not kind.watches_all}
    meant |= {kind.name: kind.signal for kind in CATALOGUE}
    meant |= {signal: signal for signal in known_signals()}
    return meant.get(name)


def _belongs_to(name: str, signal: str) -> str:
    """Return a note that the whole signal is silenced, not only the detector or metric named.

    >>> _belongs_to("loss_nan", "loss")
    'loss_nan belongs to loss: all of loss is silenced'
    """
    kinds = [kind for kind in CATALOGUE if kind.signal == signal and not kind.watches_all]
    metrics = dict.fromkeys(kind.watches[0] for kind in kinds if kind.name != name)
    others = [metric for metric in metrics if metric not in (name, signal)]
    listed = " and ".join(filter(None, [", ".join(others[:-1]), *others[-1:]]))
    also = f", also {listed}," if others else ""
    return f"{name} belongs to {signal}: all of {signal}{also} is silenced"


def _signal_of_run(signal: str, run: str | None, config_file: Path | None) -> str:
    """Return a signal that only this run knows, or raise UsageError.

    It may belong to one of the user's own detectors, or be the name of an incident.
    """
    of_run: dict[str, str] = {}
    with suppress(click.ClickException):  # a missing run is reported later
        view = view_of(find_run(run, load(config_file, lenient=True)))
        events = [event for _, _, event in view.recorded()]
        of_run = {subject_of(event): event.signal for event in events}
        of_run |= {event.signal: event.signal for event in events}
    if signal not in of_run:
        signals = sorted({*known_signals(), *of_run})
        names = [*signals, *(kind.name for kind in CATALOGUE)]
        hint = did_you_mean(signal.lower(), names) or f"; choose from {', '.join(signals)}"
        raise click.UsageError(f"there is no signal {signal}{hint}")
    return of_run[signal]
