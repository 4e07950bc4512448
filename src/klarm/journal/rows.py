"""The rows of a run that still count: what a detector's state is rebuilt from."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from math import inf, isfinite
from typing import NamedTuple

from klarm.journal.lines import Stored, Verifier, lines_between, opened, whole_end
from klarm.journal.records import Resume, Step, decoded
from klarm.journal.rollbacks import limits_between
from klarm.journal.search import command_lines, resume_lines
from klarm.metrics import to_number
from klarm.types import Command

_SOUGHT = (b'{"type":"step"', b'{"type":"command"', b'{"type":"resume"')

# One call of `log`: the step's number, and values by metric name.
Row = tuple[int, Mapping[str, float]]


class LateRow(NamedTuple):
    """One call of `log` for an earlier step than the one under way, within which it is judged."""

    step: int  # the one under way
    values: Mapping[str, float]
    late: int  # the one that it was logged for


# What a run is rebuilt from; a resume stands where training went back.
History = Row | LateRow | Command | Resume


def surviving_rows(
    journal: Stored, metrics: Collection[str], before: int | None = None
) -> Iterator[Row | LateRow | Command]:
    """Yield the calls of `log` that no later resume undid, and the commands between them.

    Rows hold only these metrics, and what is new in them: several dicts of one step are one step,
    and the first value of a metric counts, unless a later one is not finite. A row that came late
    belongs to the step under way, and all of it is new: it goes with that step. `before` leaves out
    that step and later ones, as if training went on there. No rollback undoes a command: somebody
    gave it. No more than one row is in memory at a time.
    """
    for entry in history(journal, metrics, before):
        if not isinstance(entry, Resume):
            yield entry


def history(
    journal: Stored,
    metrics: Collection[str],
    before: int | None = None,
    *,
    after: tuple[int, int, Collection[str]] | None = None,
) -> Iterator[History]:
    """Yield the same, and a resume where it undid something.

    `after` leaves out what stands before an offset, no rollback behind it undoing that: the offset,
    the step under way there, and what that has had.
    """
    start, last, had = after or (0, None, ())
    with opened(journal) as file:
        resumes = [(begin, resume.step) for begin, resume in resume_lines(file, start)]
        limits = limits_between([step for _, step in resumes], inf if before is None else before)
        passed = 0  # resume lines
        seen: set[str] = set(had)  # at the last step
        verifier = Verifier()
        verifier.sealed = start > 0
        reached = -1 if last is None else last  # whether it counts or not
        for begin, line in lines_between(file, start, whole_end(file)):
            if not verifier.passes(line) or not line.startswith(_SOUGHT):
                continue
            record = decoded(line)
            if isinstance(record, Command):
                yield record
            elif isinstance(record, Resume):
                if record.step <= reached:
                    reached = record.step - 1
                    yield record
            elif isinstance(record, Step):
                reached = record.step
                while passed < len(resumes) and resumes[passed][0] < begin:
                    passed += 1
                if not limits[passed].keeps_step(record.step):
                    continue
                if record.step != last:
                    last, seen = record.step, set()
                if record.late is not None:
                    if record.metrics:
                        yield LateRow(record.step, _new_in(record, metrics, set()), record.late)
                    continue
                yield record.step, (row := _new_in(record, metrics, seen))
                seen.update(row)


def with_commands(rows: Iterable[Row], journal: Stored) -> Iterator[Row | Command]:
    """Yield rows that somebody else has kept, and the commands of a journal between them.

    A command takes effect before the row of its step, or where training went back to since.
    """
    with opened(journal) as file:
        resumes = [(begin, resume.step) for begin, resume in resume_lines(file)]
        limits = limits_between([step for _, step in resumes])
        waiting: deque[tuple[float, Command]] = deque()
        for begin, command in command_lines(file):
            passed = sum(at < begin for at, _ in resumes)
            waiting.append((min(command.step or 0, limits[passed].step), command))
    for step, values in rows:
        while waiting and waiting[0][0] <= step:
            yield waiting.popleft()[1]
        yield step, values
    for _, command in waiting:
        yield command


def _new_in(record: Step, metrics: Collection[str], seen: set[str]) -> dict[str, float]:
    values: dict[str, float] = {}
    for name, logged in record.metrics.items():
        if name in metrics:
            number = logged if type(logged) is float else to_number(logged)
            if number is not None and (name not in seen or not isfinite(number)):
                values[name] = number
    return values
