"""Lines on disk: wherever a write stopped and whatever was damaged, nothing is misread."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from batches import ALERT, BATCHES, JOURNAL, RUN, Batch, event, records, written
from hypothesis import given
from hypothesis import strategies as st

from klarm.journal.checksum import sealed
from klarm.journal.fold import Fold
from klarm.journal.lines import Verifier, whole_end
from klarm.journal.reading import read_journal
from klarm.journal.records import Started, Step, encode
from klarm.journal.rows import surviving_rows
from klarm.journal.search import recorded_events, steps_back
from klarm.types import Alert, Command, Event

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


class StepOf01(msgspec.Struct, tag_field="type", tag="step"):
    """A step as klarm 0.1 defines it."""

    step: int
    time: float
    metrics: dict[str, float]


class StartedOf01(msgspec.Struct, tag_field="type", tag="run"):
    """A run line as klarm 0.1 defines it."""

    run: str
    started: float
    klarm: str
    host: str
    config: dict[str, object]
    framework: str = ""


def test_klarm_0_1_reads_format_2() -> None:
    """Fields that it does not know are passed over, as jq does it."""
    content = written([(RUN, []), (STEP, [ALERT])])
    decode = msgspec.json.Decoder(StepOf01 | StartedOf01 | Alert).decode
    assert [decode(line) for line in content.splitlines()] == [
        StartedOf01(RUN.run, RUN.started, RUN.klarm, RUN.host, RUN.config),
        StepOf01(3, 1.5, {"kl": 0.5}),
        ALERT,
    ]
    assert json.loads(content.splitlines()[0])["format"] == 2


def verified(lines: Sequence[bytes]) -> tuple[list[int], list[tuple[int, str]]]:
    """Return the numbers of lines that count, and what is said of the others."""
    damage: list[tuple[int, str]] = []
    verifier = Verifier(lambda *found: damage.append(found))
    return [n for n, line in enumerate(lines, start=1) if verifier.passes(line)], damage


SEALED_RUN, SEALED_STEP = sealed(encode(RUN))[:-1], sealed(encode(STEP))[:-1]
OLD_RUN, OLD_STEP = encode(Started("a", 1.0, "0.1.0", "node", {})), encode(STEP)


@pytest.mark.parametrize(
    ("lines", "counting", "damage"),
    [
        ([OLD_RUN, OLD_STEP, b"{torn"], [1, 2], [(3, "damaged")]),
        ([SEALED_RUN, OLD_STEP, SEALED_STEP], [1, 3], [(2, "not by klarm")]),
        ([SEALED_RUN[:-3], SEALED_STEP, OLD_STEP], [2], [(1, "damaged"), (3, "not by klarm")]),
        (
            [SEALED_RUN.replace(b"node", b"mode"), OLD_STEP],
            [],
            [(1, "damaged"), (2, "not by klarm")],
        ),
        ([OLD_RUN, OLD_STEP, SEALED_RUN, OLD_STEP], [1, 2, 3], [(4, "not by klarm")]),
        ([SEALED_RUN, SEALED_STEP, OLD_RUN, OLD_STEP, b""], [1, 2, 3, 4], []),
        ([encode(RUN), SEALED_STEP], [2], [(1, "damaged")]),
        ([b"", SEALED_STEP, b"", SEALED_STEP], [2, 4], [(1, "damaged")]),
    ],
    ids=[
        "klarm 0.1",
        "somebody else wrote",
        "the first line is damaged",
        "the first line is changed",
        "klarm 0.2 goes on",
        "klarm 0.1 goes on",
        "the first line lost its checksum",
        "the first line is empty",
    ],
)
def test_lines_without_a_checksum_count_only_where_klarm_0_1_wrote(
    lines: list[bytes], counting: list[int], damage: list[tuple[int, str]]
) -> None:
    """That is before any line with one, and after a run line of format 1."""
    assert verified(lines) == (counting, damage)


def test_the_end_of_what_is_whole_is_found_behind_long_lines() -> None:
    """A batch may be longer than what is read first."""
    long = msgspec.structs.replace(ALERT, message="x" * 100_000)
    content = written([(RUN, []), (STEP, [long, long, long])])
    assert whole_end(JOURNAL) == len(content)
    JOURNAL.write_bytes(content[:-1])
    assert whole_end(JOURNAL) == len(SEALED_RUN) + 1


def test_the_documented_command_finds_damaged_lines() -> None:
    """It needs nothing but Python."""
    docs = Path(__file__).parents[2] / "docs" / "journal.md"
    (command,) = [line for line in docs.read_text().splitlines() if line.startswith("python3 -c")]
    content = written([(RUN, []), (STEP, [ALERT])])
    JOURNAL.write_bytes(content.replace(b"boom", b"bo?m"))
    command = command.replace("python3", sys.executable).replace("klarm_runs/my-run", "runs/a")
    done = subprocess.run(shlex.split(command), capture_output=True, text=True, check=True)
    assert done.stdout == "3\n"
