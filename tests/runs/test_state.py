"""The state of a run that another process continues, and what is kept of it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from batches import FOLDER, RUN, event, written

from klarm.journal import FileJournal, Resume, Step
from klarm.runs import RunState, read_run, store_of
from klarm.store.summaries import Summaries
from klarm.types import Alert, Severity
from made_alerts import made_alert

LONG = [(Step(step, float(step), {"kl": step % 7 / 10, "reward": 0.5}), []) for step in range(3000)]


def kept() -> list[Path]:
    return sorted(Path(os.environ["XDG_CACHE_HOME"]).rglob("*.summary"))


def test_a_second_process_reads_only_what_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a journal that is not short; it sees the same."""
    data = written([(RUN, []), *LONG])
    first = read_run(FOLDER)
    assert len(kept()) == 1
    read: list[int] = []
    store, _ = store_of(FOLDER)
    real = type(store).read

    def noted(self: object, run: str, log: str, offset: int, size: int) -> bytes:
        found = real(self, run, log, offset, size)  # type: ignore[arg-type]
        read.append(len(found))
        return found

    monkeypatch.setattr(type(store), "read", noted)
    again = read_run(FOLDER)
    assert sum(read) < 100_000 < len(data)
    assert again.fold.saved() == first.fold.saved()
    assert again.curves["kl"].points == first.curves["kl"].points
    assert again.latest == first.latest
    more = FileJournal(FOLDER, print)
    more.step(3000, 1.0, {"kl": 9.0})
    more.close(1.0)
    assert read_run(FOLDER).latest["kl"] == 9.0


def test_a_short_journal_leaves_nothing_in_the_cache() -> None:
    """Reading it again is as fast."""
    written([(RUN, []), *LONG[:20]])
    read_run(FOLDER)
    assert kept() == []


@pytest.mark.parametrize("damage", [b"", b"nothing of that kind", b"\x00" * 5000])
def test_a_summary_that_is_damaged_is_made_again(damage: bytes) -> None:
    """Nothing depends on it."""
    written([(RUN, []), *LONG])
    whole = read_run(FOLDER)
    (file,) = kept()
    for content in (damage, damage + file.read_bytes(), file.read_bytes()[: len(damage) + 40]):
        file.write_bytes(content)
        assert read_run(FOLDER).fold.saved() == whole.fold.saved()


def test_a_summary_of_another_journal_is_not_continued() -> None:
    """One that is shorter, or that begins or ends with other bytes."""
    written([(RUN, []), *LONG])
    read_run(FOLDER)
    for steps in (LONG[:900], [(Step(0, 0.0, {"kl": 99.0}), []), *LONG[1:]], [*LONG[:-1], LONG[7]]):
        written([(RUN, []), *steps])
        store, run = store_of(FOLDER)
        fresh = RunState(store, run)
        for _ in fresh.read_all():
            pass
        assert read_run(FOLDER).fold.saved() == fresh.fold.saved()


def test_only_the_user_can_read_summaries() -> None:
    """Whatever the mask; and they are as closed as the journal."""
    written([(RUN, []), *LONG])
    before = os.umask(0)
    try:
        read_run(FOLDER)
    finally:
        os.umask(before)
    (file,) = kept()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_where_no_cache_can_be_the_run_is_read_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a container without a home."""
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    written([(RUN, []), *LONG])
    assert read_run(FOLDER).fold.steps == 3000


def test_summaries_that_nobody_used_for_long_are_deleted(tmp_path: Path) -> None:
    """When another one is kept."""
    cache, journal = tmp_path / "cache", tmp_path / "journal.jsonl"
    journal.write_bytes(b"x")
    old = Summaries(cache)
    old.keep(tmp_path / "old.jsonl", b"")
    (cache / "old.summary").write_bytes(b"x")
    os.utime(cache / "old.summary", (0, 0))
    Summaries(cache).keep(journal, b"new")
    assert Summaries(cache).of(journal) == b"new"
    assert not (cache / "old.summary").exists()
    Summaries(cache).keep(journal, b"")
    assert Summaries(cache).of(journal) == b""


def test_alerts_are_found_by_step_detector_and_severity() -> None:
    """And say whether a rollback undid them; the lines themselves are read when asked for."""

    def alert(step: int, severity: Severity = "warning", **more: str) -> Alert:
        return made_alert({"kl": float(step)}, severity, step, **more)

    written(
        [
            (RUN, []),
            (Step(1, 1.0, {"kl": 1.0}), [alert(1), alert(1, detector="kl_runaway")]),
            (Step(2, 2.0, {"kl": 1.0}), [alert(2, severity="critical")]),
            (Resume(2, 3.0), []),
            (Step(2, 4.0, {"kl": 1.0}), [alert(2)]),
        ]
    )
    view = read_run(FOLDER)
    assert view.alerts_between().by_detector() == {"kl_explosion": 3, "kl_runaway": 1}
    assert [found.step for found in view.alerts_between(2)] == [2, 2]
    assert len(view.alerts_between(None, 1, detectors=["kl_runaway"])) == 1
    (critical,) = view.alerts_between(severity="critical").latest(5)
    assert critical[:2] == (2.0, False)
    assert view.alerts_between().that_count() == [1, 1, 2]


def test_events_commands_and_processes_have_their_places() -> None:
    """So that nobody has to look for them in the journal again."""
    opened = event("opened", 1, 3, id="kaaaaaaa")
    data = written([(RUN, []), (Step(3, 9.0, {"kl": 1.0}), [opened])])
    view = read_run(FOLDER)
    ((begin, end, found),) = view.recorded()
    assert found == opened
    assert data[begin:end].startswith(b'{"type":"event"')
    assert view.events_of("kaaaaaaa") == [opened]
    assert view.state.events[0].place.time == 9.0
    assert [known.started.run for known in view.state.processes] == [RUN.run]
