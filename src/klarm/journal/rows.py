"""The rows of a run that were not rolled back: the state of detectors is rebuilt from them."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from math import inf
from typing import NamedTuple

from klarm.journal.lines import Stored, Verifier, lines_between, opened, whole_end
from klarm.journal.records import Resume, Step, decoded
from klarm.journal.rollbacks import limits_between
from klarm.journal.search import command_lines, resume_lines
from klarm.metrics import counts, to_number
from klarm.types import Command

_SOUGHT = (b'{"type":"step"', b'{"type":"command"', b'{"type":"resume"')

# One call of `log`: the step's number, and values by metric name.
Row = tuple[int, Mapping[str, float]]


class LateRow(NamedTuple):
    """A call of `log` for a step before the current one. It is judged with the current step."""

    step: int  # the current step
    values: Mapping[str, float]
    late: int  # the earlier step that the values belong to


# The entries from which a run is rebuilt; a resume marks where training was rolled back.
History = Row | LateRow | Command | Resume


def history(
    journal: Stored,
    metrics: Collection[str],
    before: int | None = None,
    *,
    after: tuple[int, int, Collection[str]] | None = None,
) -> Iterator[History]:
    """Yield the calls of `log` that were not rolled back, commands, and resumes that undid steps.

    - Rows hold only the given metrics, and only new values: several calls for one step are one
      step, in which the first value of a metric wins unless a later one is not finite.
    - A late row belongs to the step during which it arrived, and all of its values are new.
    - `before` leaves out that step and later ones, as if training resumed there.
    - Commands are never rolled back: a person gave them.
    - Only one row is in memory at a time.

    `after` leaves out everything before an offset, which no later rollback may affect. It holds the
    offset, the current step at that point, and the metrics that this step already has.
    """
    start, last, had = after or (0, None, ())
    with opened(journal) as file:
        resumes = [(begin, resume.step) for begin, resume in resume_lines(file, start)]
        limits = limits_between([step for _, step in resumes], inf if before is None else before)
        passed = 0  # how many resume lines come before the current line
        seen: set[str] = set(had)  # the metrics that the current step already has
        verifier = Verifier()
        reached = -1 if last is None else last  # the last step read, even if rolled back later
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
    """Yield rows from another source, with the commands of a journal between them.

    A command takes effect before the row of its step, or before the step to which training was
    rolled back after the command.
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
            if number is not None and counts(name, number, seen):
                values[name] = number
    return values
