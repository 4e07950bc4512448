"""Watching a folder: runs come, grow, break and go.

watch.py, watched_run.py, served_run.py, row_cache.py, changes.py and index.py work together here.
"""

from __future__ import annotations

import contextlib
import math
import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from serving_runs import RUNS, record, served, wait_until, write_steps

import klarm
from klarm.journal import FILE_NAME, Fold
from klarm.monitor import Ending
from klarm.server.changes import Changes, RunChange
from klarm.server.index import Index
from klarm.server.overview import RunsToShow, overview
from klarm.server.row_cache import RowCache
from klarm.server.watch import Watch
from klarm.store import FolderStore


class Watched:
    """A folder that is looked at by hand, with a clock of its own."""

    def __init__(self) -> None:
        RUNS.mkdir(exist_ok=True)
        self.now = 1000.0
        self.said: list[tuple[str, str]] = []
        self.store = FolderStore(RUNS)
        self.changes = Changes()
        self.watch = self._watch()

    def _watch(self) -> Watch:
        return Watch(
            self.store,
            self.changes,
            RowCache(),
            lambda run, text: self.said.append((run, text)),
            lambda: self.now,
        )

    def look(self, seconds: float = 10.0) -> list[RunChange]:
        """Look until all is read; return what changed."""
        cursor = self.changes.cursor
        self.now += seconds
        self.watch.look()
        while self.watch.progress[0] < self.watch.progress[1]:
            self.watch.look()
        rounds = self.changes.since(cursor)
        assert rounds is not None
        return [change for found in rounds for change in found.runs]

    def steps(self) -> dict[str, int]:
        runs = self.watch.runs.values()
        return {run.id: run.summary.steps for run in runs if run.summary is not None}


def test_a_run_is_found_and_followed() -> None:
    """First all of it, then what is new, each said once."""
    watched = Watched()
    assert watched.look() == []
    write_steps("a", {1: {"kl": 0.1}, 2: {"kl": 0.2}})
    (added,) = watched.look()
    assert (added.run, added.last_step) == ("a", 2)
    assert {"added", "steps"} <= set(added.what)
    assert watched.look() == []
    write_steps("a", {3: {"kl": 0.3}})
    (grown,) = watched.look()
    assert (grown.first_changed_step, grown.last_step) == (3, 3)
    assert watched.steps() == {"a": 3}


def test_a_second_start_reads_only_what_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a journal that is not short, which has its summary."""
    write_steps("a", {step: {"kl": 0.1} for step in range(3000)})
    write_steps("b", {1: {"kl": 0.1}})
    watched = Watched()
    watched.look()
    write_steps("a", {3000: {"kl": 0.1}})
    opened: list[str] = []
    real_open = Path.open

    def noted_open(self: Path, *args: object, **more: object) -> object:
        opened.append(str(self))
        return real_open(self, *args, **more)  # type: ignore[call-overload]

    again = Watched()
    monkeypatch.setattr(Path, "open", noted_open)
    found = {change.run: change for change in again.look()}
    assert found["a"].first_changed_step == 3000
    assert len([path for path in opened if path.endswith(f"a/{FILE_NAME}")]) < 10
    assert again.steps() == {"a": 3001, "b": 1}


def test_a_deleted_run_is_gone_and_said() -> None:
    """While it is served; the others stay."""
    write_steps("a", {1: {"kl": 0.1}})
    write_steps("b", {1: {"kl": 0.1}})
    with served() as client:
        assert len(client.get("/runs")["runs"]) == 2
        shutil.rmtree(RUNS / "a")
        wait_until(lambda: len(client.get("/runs")["runs"]) == 1)
        assert client.ask("/api/v1/runs/a").status == 404
        assert client.ask("/api/v1/runs/a/series").status == 404
        assert client.get("/runs/b")["steps"] == 1
        notices = client.get("/status")["notices"]
        assert [(said["run"], said["text"]) for said in notices] == [
            ("a", "its journal is gone, so it is no longer shown")
        ]


def test_a_run_that_was_replaced_is_read_from_the_beginning() -> None:
    """And what there was before is forgotten."""
    write_steps("a", {step: {"kl": 0.1} for step in range(100)})
    watched = Watched()
    watched.look()
    shutil.rmtree(RUNS / "a")
    write_steps("a", {step: {"reward": 0.1} for step in range(7)})
    watched.look()
    assert watched.steps() == {"a": 7}
    assert ("a", "its journal was replaced: reading it from the beginning") in watched.said


def test_damaged_lines_are_said_and_the_others_count() -> None:
    """Each by its number, on the page and on the terminal."""
    write_steps("a", {step: {"kl": 0.1} for step in range(10)})
    journal = RUNS / "a" / FILE_NAME
    lines = journal.read_bytes().splitlines(keepends=True)
    lines[4] = lines[4].replace(b"0.1", b"0.7")
    journal.write_bytes(b"".join([*lines, b'{"type":"step","st']))
    said: list[str] = []
    with served(say=said.append) as client:
        run = client.get("/runs/a")
        assert (run["steps"], run["damaged_lines"]) == (9, 1)
        assert run["notices"] == ["line 5 of the journal is damaged and ignored"]
    assert said == ["run a: line 5 of the journal is damaged and ignored"]


def test_a_file_that_is_no_journal_harms_nobody() -> None:
    """Whatever it holds."""
    (RUNS / "b").mkdir(parents=True)
    (RUNS / "b" / FILE_NAME).write_bytes(os.urandom(5000) + b"\n" + b"\xff" * 100)
    write_steps("a", {1: {"kl": 0.1}})
    with served() as client:
        assert {run["id"]: run["steps"] for run in client.get("/runs")["runs"]} == {"a": 1, "b": 0}


def test_an_index_that_has_not_seen_the_folder_does_not_say_that_it_is_empty() -> None:
    """Before the first look, the list is marked as incomplete."""
    write_steps("a", {1: {"kl": 0.1}})
    index = Index(RUNS.absolute())

    def shown() -> tuple[bool, list[str]]:
        found = overview(index, RunsToShow(sparklines=False))
        return found.indexing is not None, [run.id for run in found.runs]

    assert shown() == (True, [])
    index.watch.look()
    assert shown() == (False, ["a"])
    index.stop()


def test_two_servers_of_one_folder_do_not_disturb_each_other() -> None:
    """They share summaries, which are replaced as a whole."""
    write_steps("a", {step: {"kl": 0.1} for step in range(3000)})
    with served() as first, served() as second:
        assert first.get("/runs")["runs"] == second.get("/runs")["runs"]


def test_what_is_known_stays_shown_when_files_run_out() -> None:
    """As with many half-open requests and a low limit; it is said, and goes on afterwards."""
    write_steps("a", {1: {"kl": 0.1}})
    watched = Watched()
    watched.look()
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, limit[1]))
    try:
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.dup(0))
        watched.look()
        assert watched.steps() == {"a": 1}
        (said,) = [text for _, text in watched.said]
        assert "Too many open files" in said
        assert "what is known stays shown" in said
    finally:
        for file in taken:
            os.close(file)
        resource.setrlimit(resource.RLIMIT_NOFILE, limit)
    write_steps("b", {1: {"kl": 0.1}})
    watched.look()
    assert watched.steps() == {"a": 1, "b": 1}


def test_a_huge_journal_delays_nobody() -> None:
    """Each run is read a slice at a time; a huge line is skipped."""
    write_steps("a", {step: {"kl": 0.1} for step in range(40_000)})
    with (RUNS / "a" / FILE_NAME).open("ab") as file:
        file.write(b"x" * 2**25 + b"\n")
    write_steps("a", {40_000: {"kl": 0.1}})
    write_steps("b", {1: {"kl": 0.1}})
    watched = Watched()
    watched.now += 10.0
    watched.watch.look()
    assert watched.steps()["b"] == 1
    assert 0 < watched.steps()["a"] < 40_000
    watched.look()
    assert watched.steps() == {"a": 40_001, "b": 1}
    assert ("a", "line 40002 of the journal is damaged and ignored") in watched.said


def test_whether_a_run_trains_is_known() -> None:
    """It trains while its process lives, has finished if it said so, and else has stopped."""
    script = (
        "import klarm, sys; klarm.init('live', dir='runs', console=False); "
        "klarm.log({'kl': 0.1}, step=1); print('ready', flush=True); sys.stdin.read()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        record("done", "healthy", rows=5)
        with served() as client:
            found = {run["id"]: run["activity"] for run in client.get("/runs")["runs"]}
            assert found == {"live": "training", "done": "finished"}
            process.send_signal(signal.SIGKILL)
            process.wait()
            wait_until(lambda: client.get("/runs/live")["activity"] == "stopped")
    finally:
        process.kill()
        process.communicate()


def test_an_incident_of_a_run_that_is_no_longer_followed_is_still_open() -> None:
    """Training may go on: nobody knows that the run has ended."""
    monitor = klarm.init("seen", dir=str(RUNS), console=False)
    for kl in (*[0.4, 0.6] * 30, math.nan):
        monitor.log({"kl": kl})
    monitor.end_as(Ending("detached"))
    monitor.finish()
    with served() as client:
        assert client.get("/runs/seen")["activity"] == "detached"
        (incident,) = client.get("/runs/seen/incidents")["incidents"]
        assert incident["state_text"] == "open"


def test_a_killed_server_goes_on_where_it_was() -> None:
    """Killed at any moment of its first reading, it answers the same in the end."""
    rows = {step: {"kl": step % 13 / 10, "reward": 0.5} for step in range(30_000)}
    write_steps("a", rows)
    record("b")
    script = (
        "import sys; from pathlib import Path; from klarm.server import PageServer; "
        "server = PageServer(Path('runs'), print, port=0); print('up', flush=True); server.run()"
    )
    for seconds in (0.0, 0.2):
        process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
        process.communicate()
    with served() as client:
        assert client.get("/runs/a")["steps"] == 30_000
        found = client.get("/runs/a/series?metrics=kl&width=50")["series"]["kl"]
        assert found["count"] == 30_000
        incidents = client.get("/runs/b/incidents")["incidents"]
    shutil.rmtree(os.environ["XDG_CACHE_HOME"])
    with served() as client:  # read again
        assert client.get("/runs/a/series?metrics=kl&width=50")["series"]["kl"] == found
        assert client.get("/runs/b/incidents")["incidents"] == incidents
    fold = Fold(RUNS / "b" / FILE_NAME)
    fold.update()
    assert [known["id"] for known in incidents] == list(fold.incidents)


def test_a_cursor_that_is_too_old_is_not_answered() -> None:
    """Whoever has one reads everything again."""
    changes = Changes(lambda: 5.0)
    assert changes.cursor == 5000
    for number in range(2100):
        changes.publish([RunChange(f"r{number}", ["steps"])])
    assert changes.since(5000) is None
    assert changes.since(10**9) is None
    latest = changes.since(changes.cursor - 1)
    assert latest is not None
    assert [change.run for change in latest[0].runs] == ["r2099"]
    klarm.finish()
