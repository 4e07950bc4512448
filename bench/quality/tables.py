"""The tables that `make quality` prints, and the targets of the issue."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, isnan
from typing import TYPE_CHECKING

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from quality.contenders import KLARM
from quality.generators import FAMILIES
from quality.real_runs import ROWS_AFTER, ROWS_BEFORE, Booked, Rate
from quality.scoring import Estimate
from quality.summary import Found, Quiet

if TYPE_CHECKING:
    from quality.grid import Tried

_WIDTH = 120


@dataclass(frozen=True)
class Target:
    """What the issue asks for, and what was measured."""

    what: str
    value: Estimate
    limit: float
    at_most: bool
    unit: str  # "%", "×", or none
    source: str  # where the runs come from

    @property
    def met(self) -> bool:
        """Return whether the value, not its interval, is on the right side."""
        return self.value.value <= self.limit if self.at_most else self.value.value >= self.limit


def targets(
    quiet: Sequence[Quiet],
    found: Sequence[Found],
    real: Sequence[Rate],
    in_frameworks: Sequence[Rate],
) -> list[Target]:
    """Return the issue's targets for the default configuration."""
    ours = {row.kind: row for row in found if row.contender == KLARM}
    healthy = next(row.runs for row in quiet if row.contender == KLARM)
    explosion, drift = ours["explosion"], ours["drift"]
    fresh = "synthetic"
    reached = [
        Target("healthy runs with an open incident on kl", healthy, 0.03, True, "%", fresh),
        Target("explosions: recall", explosion.recall, 1.0, False, "%", fresh),
        Target("drift x3-10: recall", drift.recall, 0.90, False, "%", fresh),
    ]
    if explosion.over_oracle is not None:
        what = "explosions: delay over the oracle's"
        reached.insert(2, Target(what, explosion.over_oracle, 1.5, True, "×", fresh))
    for rate in real:
        limit = rate.at_least if rate.at_most is None else rate.at_most
        if limit is not None:
            for by, value in (("run", rate.by_run), ("repository", rate.by_repository)):
                at_most = rate.at_most is not None
                source = f"real, by {by}"
                reached.append(Target(rate.what, value, limit, at_most, rate.unit, source))
    for rate in in_frameworks:
        limit = rate.at_least if rate.at_most is None else rate.at_most
        if limit is not None:
            at_most = rate.at_most is not None
            reached.append(Target(rate.what, rate.by_run, limit, at_most, "%", "frameworks"))
    return reached


def show_quiet(rows: Sequence[Quiet]) -> None:
    """Print the false alarms."""
    table = _table("Healthy synthetic runs, default thresholds: share with any alarm")
    for heading in ("all \\[95 %]", *FAMILIES, "episodes per 1,000 rows", "time in alarm"):
        table.add_column(
            heading.replace("_", " "), justify="right", no_wrap=heading.startswith("all")
        )
    for row in rows:
        families = [_percent(row.by_family[family].value) for family in FAMILIES]
        rate, time = f"{row.episodes_per_1000_rows:.2f}", f"{100 * row.time_in_alarm:.2f} %"
        table.add_row(row.contender, _share(row.runs), *families, rate, time)
    _print(table)


def show_found(rows: Sequence[Found], title: str) -> None:
    """Print recall and delay, one block per kind of failure."""
    table = _table(
        title,
        "healthy: healthy runs with any alarm, at the same threshold. A delay counts the failing "
        "rows seen up to the alarm; it is infinite for a failure not found. in alarm: share of the "
        "rows after onset. The oracle is set to the contender's own false-alarm rate, within 1 to "
        "50 %.",
    )
    for heading in ("healthy", "recall \\[95 %]", "median delay", "90 %", "in alarm", "× oracle"):
        table.add_column(heading, justify="right", no_wrap=True)
    kind = ""
    for row in rows:
        if row.kind != kind:
            kind = row.kind
            table.add_section()
            table.add_row(f"[bold]{kind.replace('_', ' ')}")
        table.add_row(
            f"  {row.contender}",
            _percent(row.healthy.value),
            _share(row.recall),
            _interval(row.delay, _rows),
            _rows(row.delay_90),
            _percent(row.time_in_alarm),
            "" if row.over_oracle is None else _interval(row.over_oracle, _ratio),
        )
    _print(table)


def show_real(rows: Sequence[Rate], which: str) -> None:
    """Print what was said of recorded runs."""
    table = _table(
        f"Recorded runs of the repositories {which}, default configuration",
        f"An incident: people were notified. In time: from {ROWS_BEFORE} rows before the onset to "
        f"{ROWS_AFTER} after.",
    )
    for heading in ("runs", "by run \\[95 %]", "repositories", "mean of repositories"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        counts = str(row.runs), str(row.repositories)
        spelt = _percent if row.unit == "%" else _ratio
        by_run, by_repository = _interval(row.by_run, spelt), _interval(row.by_repository, spelt)
        table.add_row(row.what, counts[0], by_run, counts[1], by_repository)
    _print(table)


def show_booked(rows: Sequence[Booked], which: str) -> None:
    """Print what each detector was right and wrong about."""
    table = _table(
        f"Recorded runs of the repositories {which}, by detector",
        "The runs in which people were notified with this detector's words. Alone: no other "
        "detector did so in time.",
    )
    headings = ("failing, in time", "alone", "healthy", "healthy, critical", "maybe")
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        counts = (row.true, row.alone, row.false, row.false_critical, row.maybe)
        table.add_row(row.detector, *map(str, counts))
    _print(table)


def show_trained(rows: Sequence[Rate]) -> None:
    """Print what was said of runs in real frameworks."""
    table = _table("Runs in TRL, SB3 and RLlib, default configuration")
    for heading in ("runs", "share \\[95 %]"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(row.what, str(row.runs), _share(row.by_run))
    _print(table)


def show_grid(rows: Sequence[Tried], title: str) -> None:
    """Print what choices of constants do, on runs to tune on."""
    table = _table(
        title,
        "delay: of explosions, over the oracle's, geometric mean. recorded: healthy runs "
        "disturbed / failing ones reported in time; looked at only for what would be kept.",
    )
    for heading in ("delay", "healthy", "explosions", "drift", "recorded", ""):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        shares = (_percent(share) for share in (row.healthy, row.explosions, row.drift))
        recorded = "" if row.recorded is None else "{} / {}".format(*row.recorded)
        table.add_row(row.what, f"{row.delay:.3f}", *shares, recorded, row.verdict)
    _print(table)


def show_mistakes(mistakes: Mapping[str, Sequence[str]]) -> None:
    """Print which runs went wrong."""
    for what, runs in mistakes.items():
        print(f"{what}:")
        for run in runs or ["none"]:
            print(f"  {run}")
        print()


def show_targets(rows: Sequence[Target], seeds: str) -> None:
    """Print what is reached and what is not."""
    table = _table(
        "Targets, default configuration",
        f"synthetic: {seeds} seeds. real: repositories "
        + ("left out of all tuning." if seeds == "reporting" else "to tune on."),
    )
    for heading in ("runs", "measured \\[95 %]", "to reach", ""):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        as_share = row.unit == "%"
        measured = _share(row.value) if as_share else _interval(row.value, _ratio)
        limit = _percent(row.limit) if as_share else _ratio(row.limit)
        verdict = "ok" if row.met else "[bold red]MISS"
        sign = "≤" if row.at_most else "≥"
        table.add_row(row.what, row.source, measured, f"{sign} {limit}", verdict)
    _print(table)
    print(f"{sum(row.met for row in rows)} of {len(rows)} targets met")


def _table(title: str, caption: str = "") -> Table:
    table = Table(box=SIMPLE, title=title, title_justify="left", caption=caption or None)
    table.caption_justify = "left"
    table.add_column("", no_wrap=True)
    return table


def _print(table: Table) -> None:
    Console(width=_WIDTH).print(table)  # also when it goes to a file


def _share(estimate: Estimate) -> str:
    return _interval(estimate, _percent)


def _interval(estimate: Estimate, spelt: Callable[[float], str]) -> str:
    ends = (spelt(end).removesuffix(" %") for end in (estimate.low, estimate.high))
    return f"{spelt(estimate.value)} \\[{'–'.join(ends)}]"


def _percent(value: float) -> str:
    if isnan(value):  # of no runs
        return ""
    return f"{100 * value:.1f} %" if 0 < value < 0.1 else f"{100 * value:.0f} %"


def _rows(value: float) -> str:
    return f"{value:.0f}" if isfinite(value) else "∞"


def _ratio(value: float) -> str:
    return f"{value:.2f}" if isfinite(value) else "∞"
