"""Which snapshot a run goes on from, and when the journal is read instead."""

from __future__ import annotations

import shutil
import time
import tracemalloc
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from test_graph import OwnDetectorWithState

from klarm.config.layers import load
from klarm.console import Console
from klarm.detectors import KLRunawayDetector
from klarm.journal import FileJournal
from klarm.monitor import Monitor
from klarm.notices import Notices
from klarm.snapshots import FOLDER, keeper
from klarm.types import Alert, Event

RUN = Path("a")
EVERY = 50
SAID = "is ignored"


def start(**sections: object) -> Monitor:
    config, now = load(overrides=sections), count()
    return Monitor(
        "a",
        config.detectors(),
        FileJournal(RUN, print),
        Console(enabled=True, notices=Notices()),
        rules=config.incident_rules(),
        clock=lambda: float(next(now)),
        snapshot_rows=EVERY,
    )


def value(step: int) -> dict[str, float]:
    return {"kl": 0.02 + step * 7 % 5 / 1000, "reward": step * 3 % 7 / 10}


def train(monitor: Monitor, first: int, end: int) -> None:
    for step in range(first, end):
        monitor.log(value(step), step)


def learnt(monitor: Monitor) -> int:
    """Return how many values the detectors have learnt from."""
    (runaway,) = (d for d in monitor.detectors if type(d) is KLRunawayDetector)
    return runaway._forecast.rows


def ended(monitor: Monitor) -> None:
    """End the process that trains, once its snapshots are written."""
    writer = monitor._past._keeper._writer
    assert writer is not None
    writer._jobs.put(None)
    writer._thread.join(10)
    monitor.finish()


def files() -> list[str]:
    return sorted(path.name for path in (RUN / FOLDER).glob("*.snapshot"))


def steps() -> list[int]:
    return [int(name.split("-")[1]) for name in files()]


@pytest.fixture
def recorded(clean_place: None) -> None:
    """A run of 240 rows, with its snapshots."""
    monitor = start()
    train(monitor, 0, 240)
    ended(monitor)


@pytest.mark.usefixtures("recorded")
def test_a_run_goes_on_from_its_newest_snapshot(capsys: pytest.CaptureFixture[str]) -> None:
    """What the journal holds before it is not read into detectors again."""
    assert 199 in steps()
    monitor = start()
    monitor.log(value(240), 240)
    assert SAID not in capsys.readouterr().err
    assert learnt(monitor) == 241


@pytest.mark.usefixtures("recorded")
def test_snapshots_that_training_went_back_behind_go() -> None:
    """In the folder and in memory."""
    monitor = start()
    monitor.log({"kl": 0.1}, 120)
    assert all(step < 120 for step in steps())
    train(monitor, 121, 260)
    monitor.resume(200)
    ended(monitor)
    assert all(step < 200 for step in steps())


@pytest.mark.usefixtures("recorded")
def test_a_snapshot_that_a_killed_process_left_behind_a_rollback_is_not_used() -> None:
    """The journal tells that training went back."""
    shutil.copytree(RUN / FOLDER, "kept")
    monitor = start()
    train(monitor, 100, 110)
    monitor.finish()
    shutil.copytree("kept", RUN / FOLDER, dirs_exist_ok=True)
    monitor = start()
    monitor.log(value(300), 300)
    assert learnt(monitor) == 111


@pytest.mark.usefixtures("recorded")
def test_other_settings_mean_that_the_journal_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    """It is said once."""
    monitor = start(kl_explosion={"rolling_window": 60})
    monitor.log(value(240), 240)
    said = capsys.readouterr().err
    assert said.count(SAID) == 1
    assert "the settings or the version of klarm have changed" in said
    assert learnt(monitor) == 241


@pytest.mark.usefixtures("recorded")
def test_a_journal_that_was_changed_is_read_and_its_damage_said(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A snapshot is of one journal, to the byte."""
    journal = RUN / "journal.jsonl"
    journal.write_bytes(journal.read_bytes().replace(b'"step":20,', b'"step":21,', 1))
    monitor = start()
    monitor.log(value(240), 240)
    said = capsys.readouterr().err
    assert "it belongs to another journal" in said
    assert "is damaged" in said
    train(monitor, 241, 300)
    monitor.resume(250)  # by a snapshot of this process, or by the journal
    assert learnt(monitor) == 249  # one row is lost
    ended(monitor)
    start()
    assert SAID not in capsys.readouterr().err


@pytest.mark.usefixtures("recorded")
def test_a_snapshot_of_a_longer_journal_is_not_used(capsys: pytest.CaptureFixture[str]) -> None:
    """Somebody has put an older copy of the journal back."""
    journal = RUN / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:120]))
    monitor = start()
    monitor.log(value(240), 240)
    assert SAID in capsys.readouterr().err
    assert learnt(monitor) == 121


def test_a_folder_that_cannot_be_written_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    """The run goes on, and goes back by what is in memory."""
    RUN.mkdir()
    (RUN / FOLDER).write_text("in the way")
    monitor = start()
    train(monitor, 0, 240)
    said = ""
    for _ in range(6_000):  # until the thread has tried
        said += capsys.readouterr().err
        if "cannot write a snapshot" in said:
            break
        time.sleep(0.01)
    monitor.resume(220)
    monitor.log({"kl": 0.1}, 220)
    ended(monitor)
    said += capsys.readouterr().err
    assert said.count("cannot write a snapshot") == 1
    assert learnt(monitor) == 221


def test_what_was_in_the_middle_of_a_write_is_written_over() -> None:
    """A process was killed there."""
    (RUN / FOLDER).mkdir(parents=True)
    (RUN / FOLDER / "unfinished.tmp").write_bytes(b"half")
    monitor = start()
    train(monitor, 0, 120)
    ended(monitor)
    assert steps() == [49, 99]


def test_an_incident_that_was_over_and_came_back_is_reported_as_recovered() -> None:
    """That it was over is in the snapshot; that it came back is undone."""
    monitor = start()
    received: list[Event] = []
    monitor.on_event.append(received.append)
    for step in range(260):
        high = 60 <= step < 75 or step >= 150
        monitor.log({"kl": 3.0 if high else 0.02 + step * 7 % 5 / 1000}, step)
    assert [event.event for event in received if event.event in ("resolved", "reopened")]
    monitor.resume(148)
    assert (received[-1].event, received[-1].reason) == ("resolved", "recovered")
    ended(monitor)


def test_only_the_rows_behind_a_snapshot_are_read_again(clean_place: None) -> None:
    """However long the run is."""
    seen: list[int] = []

    class Counting(OwnDetectorWithState):
        def _observe(self, step: int, value: float) -> Alert | None:
            seen.append(step)
            return super()._observe(step, value)

    def watch() -> Monitor:
        return Monitor("a", [Counting()], FileJournal(RUN, print), snapshot_rows=EVERY)

    monitor = watch()
    train(monitor, 0, 240)
    ended(monitor)
    seen.clear()
    monitor = watch()
    monitor.log(value(240), 240)
    assert seen == list(range(200, 241))
    train(monitor, 241, 300)
    seen.clear()
    monitor.resume(280)
    assert seen == list(range(250, 280)) or seen == list(range(200, 280))
    ended(monitor)


@pytest.fixture
def traced() -> Iterator[None]:
    """Allocations are counted."""
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.usefixtures("traced")
def test_a_long_journal_is_read_in_small_pieces(clean_place: None) -> None:
    """The allocator keeps what the thread needs at its peak for the rest of the run."""
    config = load()
    monitor = Monitor("a", config.detectors(), FileJournal(RUN, print), snapshot_rows=8_000)
    row = {f"layer-{number}/grad_norm": 0.1 + number for number in range(10)}
    for step in range(8_000):
        monitor.log(row, step)
    journal = (RUN / "journal.jsonl").stat().st_size
    before, _ = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    monitor.finish()  # the snapshot is written now
    _, peak = tracemalloc.get_traced_memory()
    assert files()
    assert journal > 2**21
    assert peak - before < 2**18


@pytest.mark.slow
@pytest.mark.usefixtures("traced")
def test_the_number_of_snapshots_written_does_not_show_in_memory(clean_place: None) -> None:
    """Files that were deleted are forgotten."""
    monitor = start()
    early = held_after(monitor, range(20))
    late = held_after(monitor, range(20, 120))
    ended(monitor)
    assert late - early < 2_000


def held_after(monitor: Monitor, snapshots: range) -> int:
    """Write some snapshots; return how many bytes allocated by snapshots/keeper.py are in use."""
    for number in snapshots:
        end = (number + 1) * EVERY
        train(monitor, number * EVERY, end)
        writer = monitor._past._keeper._writer
        assert writer is not None
        for _ in range(6_000):  # until the thread has written it
            if writer.written and writer.written[0].step == end - 1:
                break
            time.sleep(0.01)
    filters = [tracemalloc.Filter(inclusive=True, filename_pattern=keeper.__file__)]
    held = tracemalloc.take_snapshot().filter_traces(filters)
    return sum(statistic.size for statistic in held.statistics("filename"))
