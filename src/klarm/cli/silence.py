"""`klarm silence`: holds back notifications about a signal for a while."""

from __future__ import annotations

import getpass
import time
from contextlib import suppress
from pathlib import Path

import click

from klarm.cli.options import config_option, run_option
from klarm.cli.runs import find_run, send_command, started
from klarm.config import load
from klarm.delivery import Outbox, Silence, last_step, parse_span, silence_in_words
from klarm.detectors import CATALOGUE, known_signals
from klarm.incidents import subject_of
from klarm.journal import FILE_NAME, new_key, recorded_events
from klarm.settings import did_you_mean
from klarm.terminal import echo
from klarm.types import Command


@click.command()
@click.argument("signal")
@click.option("--for", "span", metavar="SPAN", help="How long: 200steps, 30min, 2h or 1d.")
@click.option("--off", is_flag=True, help="End the silences of SIGNAL now.")
@run_option
@config_option
@click.option("--even-critical", is_flag=True, help="Also silence critical incidents, such as NaN.")
@click.option("--by", metavar="NAME", help="Who silences it. [default: the current user]")
def silence(
    *,
    signal: str,
    span: str | None,
    off: bool,
    run: str | None,
    config_file: Path | None,
    even_critical: bool,
    by: str | None,
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
    head = started(folder)
    now = time.time()
    who = by or getpass.getuser()
    if span is None:
        outbox = Outbox(folder)
        outbox.refresh()
        silent = sorted({silence.signal for silence in outbox.in_force(now)})
        if signal not in silent:
            others = f"; silenced: {', '.join(silent)}" if silent else ""
            raise click.ClickException(f"run {head.run}: {signal} is not silenced{others}")
        off_now = Command(command="silence_off", key=new_key(), time=now, by=who, signal=signal)
        send_command(folder, off_now)
        echo(
            f"run {head.run}: {signal} is no longer silenced; incidents that were held back and "
            "are still open are sent now, by the run or by klarm deliver"
        )
        return
    try:
        until_step, until_time = parse_span(span, last_step(folder), now)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    send_command(
        folder,
        Command(
            command="silence",
            key=new_key(),
            time=now,
            by=who,
            signal=signal,
            until_step=until_step,
            until_time=until_time,
            even_critical=even_critical,
        ),
    )
    silence = Silence(signal, who, until_step, until_time, even_critical)
    if name != signal:
        echo(_belongs_to(name, signal))
    echo(f"run {head.run}: {silence_in_words(silence)}")


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
        journal = find_run(run, load(config_file, lenient=True)) / FILE_NAME
        events = [event for _, _, event in recorded_events(journal)]
        of_run = {subject_of(event): event.signal for event in events}
        of_run |= {event.signal: event.signal for event in events}
    if signal not in of_run:
        signals = sorted({*known_signals(), *of_run})
        names = [*signals, *(kind.name for kind in CATALOGUE)]
        hint = did_you_mean(signal.lower(), names) or f"; choose from {', '.join(signals)}"
        raise click.UsageError(f"there is no signal {signal}{hint}")
    return of_run[signal]
