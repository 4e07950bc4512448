"""Lines on disk: wherever a write stopped and whatever was damaged, nothing is misread."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from batches import ALERT, BATCHES, JOURNAL, RUN, Batch, event, records, surviving_rows, written
from hypothesis import given
from hypothesis import strategies as st

from klarm.journal.checksum import sealed
from klarm.journal.fold import Fold
from klarm.journal.lines import Verifier, whole_end
from klarm.journal.reading import read_journal
from klarm.journal.records import Step, encode
from klarm.journal.search import recorded_events, steps_back
from klarm.types import Command, Event

STEP = Step(3, 1.5, {"kl": 0.5})


@given(BATCHES, st.data())
def test_a_journal_cut_anywhere_holds_its_first_batches(
    batches: list[Batch], data: st.DataObject
) -> None:
    """Each of them whole: never half of one, never an exception."""
    batches = [(RUN, []), *batches]
    content = written(batches)
    everything = records()
    assert len(everything) == sum(1 + len(also) for _, also in batches)
    cut = data.draw(st.integers(0, len(content)))
    JOURNAL.write_bytes(content[:cut])
    left = records()
    assert left == everything[: len(left)]
    ends = [0]
    for _, also in batches:
        ends.append(ends[-1] + 1 + len(also))
    assert len(left) in ends
    assert whole_end(JOURNAL) <= cut
    fold = Fold(JOURNAL)
    assert [e.step for e in fold.update()] == [e.step for e in left if isinstance(e, Event)]


@given(BATCHES, st.data())
def test_no_flipped_byte_makes_another_record(batches: list[Batch], data: st.DataObject) -> None:
    """The line it is in is reported and left out; all others read as they were written."""
    content = written([(RUN, []), *batches])
    everything = records()
    place = data.draw(st.integers(0, len(content) - 1))
    value = data.draw(st.integers(0, 255).filter(lambda value: value != content[place]))
    JOURNAL.write_bytes(content[:place] + bytes([value]) + content[place + 1 :])
    damage: list[tuple[int, str]] = []
    left = list(read_journal(JOURNAL, lambda *found: damage.append(found)))
    rest = iter(everything)
    assert all(record in rest for record in left)  # in order, and nothing else
    assert left == everything or damage
    events = [record for record in left if isinstance(record, Event)]
    assert Fold(JOURNAL).update() == [e for _, _, e in recorded_events(JOURNAL)] == events
    rows = [row[0] for row in surviving_rows(JOURNAL, ["kl"]) if not isinstance(row, Command)]
    assert rows == [step.step for step in steps_back(JOURNAL)][::-1]


def test_an_event_is_there_if_its_step_is() -> None:
    """A kill between the two would hide the event from `klarm deliver`: it undoes the step."""
    opened = event("opened", 1, 4, id="kaaaaaaa")
    before = written([(RUN, []), (STEP, [])])
    content = written([(RUN, []), (STEP, []), (Step(4, 2.5, {"kl": 9.0}), [ALERT, opened])])
    for cut in range(len(before), len(content)):
        JOURNAL.write_bytes(content[:cut])
        assert records() == [RUN, STEP]
    JOURNAL.write_bytes(content)
    assert records()[-1] == opened


def verified(lines: Sequence[bytes]) -> tuple[list[int], list[tuple[int, str]]]:
    """Return the numbers of lines that count, and what is said of the others."""
    damage: list[tuple[int, str]] = []
    verifier = Verifier(lambda *found: damage.append(found))
    return [n for n, line in enumerate(lines, start=1) if verifier.passes(line)], damage


SEALED_RUN, SEALED_STEP = sealed(encode(RUN))[:-1], sealed(encode(STEP))[:-1]
BARE_RUN, BARE_STEP = encode(RUN), encode(STEP)


@pytest.mark.parametrize(
    ("lines", "counting", "damage"),
    [
        ([SEALED_RUN, BARE_STEP, SEALED_STEP], [1, 3], [(2, "not by klarm")]),
        ([SEALED_RUN[:-3], SEALED_STEP, BARE_STEP], [2], [(1, "damaged"), (3, "not by klarm")]),
        (
            [SEALED_RUN.replace(b"node", b"mode"), BARE_STEP],
            [],
            [(1, "damaged"), (2, "not by klarm")],
        ),
        ([BARE_RUN, SEALED_STEP, b"{torn"], [2], [(1, "damaged"), (3, "damaged")]),
        ([b"", SEALED_STEP, b"", SEALED_STEP], [2, 4], [(1, "damaged")]),
    ],
    ids=[
        "somebody else wrote",
        "the first line is damaged",
        "the first line is changed",
        "the first line lost its checksum",
        "the first line is empty",
    ],
)
def test_only_lines_with_the_right_checksum_count(
    lines: list[bytes], counting: list[int], damage: list[tuple[int, str]]
) -> None:
    """The others are reported, except for empty lines in between."""
    assert verified(lines) == (counting, damage)


def test_the_end_of_what_is_whole_is_found_behind_long_lines() -> None:
    """A batch may be longer than what is read first."""
    long = msgspec.structs.replace(ALERT, names=("x" * 100_000,))
    content = written([(RUN, []), (STEP, [long, long, long])])
    assert whole_end(JOURNAL) == len(content)
    JOURNAL.write_bytes(content[:-1])
    assert whole_end(JOURNAL) == len(SEALED_RUN) + 1


def test_the_documented_command_finds_damaged_lines() -> None:
    """It needs nothing but Python."""
    docs = Path(__file__).parents[2] / "docs" / "journal.md"
    (command,) = [line for line in docs.read_text().splitlines() if line.startswith("python3 -c")]
    content = written([(RUN, []), (STEP, [ALERT])])
    JOURNAL.write_bytes(content.replace(b'"critical"', b'"cr?tical"'))
    command = command.replace("python3", sys.executable).replace("klarm_runs/my-run", "runs/a")
    done = subprocess.run(shlex.split(command), capture_output=True, text=True, check=True)
    assert done.stdout == "3\n"
