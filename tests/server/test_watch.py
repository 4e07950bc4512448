"""Watching a folder: runs come, grow, break and go.

watch.py, watched_run.py, changes.py, database.py and index.py work together here.
"""

from __future__ import annotations

import math
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from serving_runs import RUNS, Client, record, served, wait_until, write_steps

import klarm
from klarm.journal import FILE_NAME, Fold
from klarm.monitor import Ending
from klarm.server.changes import Changes, RunChange
from klarm.server.database import FILE_NAME as INDEX_FILE
from klarm.server.database import Database
from klarm.server.index import Index
from klarm.server.overview import overview
from klarm.server.watch import Watch


class Watched:
    """A folder that is looked at by hand, with a clock of its own."""

    def __init__(self) -> None:
        RUNS.mkdir(exist_ok=True)
        self.now = 1000.0
        self.said: list[tuple[str, str]] = []
        self.database = Database(RUNS, lambda text: self.said.append(("", text)))
        self.changes = Changes()
        self.watch = self._watch()

    def _watch(self) -> Watch:
        return Watch(
            RUNS.absolute(),
            self.database,
            self.changes,
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
        with self.database.reading() as database:
            found = database.execute("SELECT id, summary ->> 'steps' FROM runs").fetchall()
        return {id_: int(steps) for id_, steps in found if steps is not None}


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
    watched.database.close()


def test_a_second_start_reads_only_what_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    """Journals that have not grown are not even opened."""
    write_steps("a", {step: {"kl": 0.1} for step in range(3000)})
    write_steps("b", {1: {"kl": 0.1}})
    watched = Watched()
    watched.look()
    watched.database.close()
    write_steps("a", {3000: {"kl": 0.1}})
    opened: list[str] = []
    real_open = Path.open

    def noted_open(self: Path, *args: object, **more: object) -> object:
        opened.append(str(self))
        return real_open(self, *args, **more)  # type: ignore[call-overload]

    again = Watched()
    monkeypatch.setattr(Path, "open", noted_open)
    (grown,) = again.look()
    assert (grown.run, grown.first_changed_step) == ("a", 3000)
    assert not [path for path in opened if path.endswith(f"b/{FILE_NAME}")]
    assert again.steps() == {"a": 3001, "b": 1}
    again.database.close()


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
    watched.database.close()


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


@pytest.mark.parametrize(
    ("content", "health"),
    [
        (b"", "empty"),
        (b"no journal at all\n", "unreadable"),
        (b"no line of a journal either", "unreadable"),
    ],
)
def test_a_run_of_which_nothing_can_be_read_is_not_ok(content: bytes, health: str) -> None:
    """And it does not get in the way of comparing others."""
    (RUNS / "b").mkdir(parents=True)
    (RUNS / "b" / FILE_NAME).write_bytes(content)
    record("a", "healthy", rows=5)
    record("c", "healthy", rows=5, kl_explosion={"sigma_multiplier": 5.0})
    with served() as client:
        found = {run["id"]: run["health"] for run in client.get("/runs")["runs"]}
        assert found == {"a": "ok", "b": health, "c": "ok"}
        compared = client.get("/compare?runs=a,b,c")
        differences = [known["setting"] for known in compared["differences"]]
        assert differences == ["kl_explosion.sigma_multiplier"]


def test_a_run_in_which_nothing_is_watched_is_not_ok() -> None:
    """It comes before those that are, and says which metrics nobody knows, after a restart too."""
    klarm.init("odd", dir=str(RUNS), console=False)
    for _ in range(5):
        klarm.log({"H": 1.0, "KL_div": 0.1})
    klarm.finish()
    record("fine", "healthy", rows=5)
    for _ in range(2):
        with served() as client:
            odd, fine = client.get("/runs")["runs"]
            assert (odd["id"], odd["health"]) == ("odd", "unwatched")
            sentence = "Nothing was watched: no detector knows any of H, KL_div."
            assert odd["not_watched"] == client.get("/runs/odd")["not_watched"] == sentence
            assert (fine["health"], fine["not_watched"]) == ("ok", "")


def test_an_index_that_is_damaged_is_built_again() -> None:
    """At the start and while it is used; nothing is lost, and it is said."""
    write_steps("a", {step: {"kl": 0.1} for step in range(3000)})
    with served() as client:
        before = client.get("/runs/a/series?width=50")["series"]
    (RUNS / INDEX_FILE).write_bytes(b"no database at all" * 1000)
    said: list[str] = []
    with served(say=said.append) as client:
        assert client.get("/runs/a/series?width=50")["series"] == before
        assert "building it again" in said[0]
        # Pages in the middle of the file.
        with (RUNS / INDEX_FILE).open("r+b") as file:
            client.server.index.database.writer.execute(  # type: ignore[attr-defined]
                "PRAGMA wal_checkpoint(TRUNCATE)"
            )
            size = file.seek(0, os.SEEK_END)
            file.seek(16384)
            file.write(os.urandom(size - 16384))
        wait_until(lambda: len(said) > 1 or not client.ask("/api/v1/runs/a/series"))
        wait_until(lambda: _answers(client, "/runs/a/series?width=50") == before)


def _answers(client: object, path: str) -> object:
    answer = client.ask(f"/api/v1{path}")  # type: ignore[attr-defined]
    return answer.json["series"] if answer.status == 200 else None


def test_an_index_that_is_deleted_is_built_again() -> None:
    """While it is used."""
    write_steps("a", {1: {"kl": 0.1}})
    watched = Watched()
    watched.look()
    (RUNS / INDEX_FILE).unlink()
    watched.look()
    watched.look()
    assert watched.steps() == {"a": 1}
    assert (RUNS / INDEX_FILE).exists()
    watched.database.close()


def test_an_index_that_has_not_seen_the_folder_does_not_say_that_it_is_empty() -> None:
    """Before the first look, and after the index was lost: the list is marked as incomplete."""
    write_steps("a", {1: {"kl": 0.1}})
    index = Index(RUNS.absolute())

    def shown() -> tuple[bool, list[str]]:
        found = overview(index, [], with_sparklines=False)
        return found.indexing is not None, [run.id for run in found.runs]

    assert shown() == (True, [])
    index.watch.look()
    assert shown() == (False, ["a"])
    (RUNS / INDEX_FILE).unlink()
    index.watch.nudge()
    wait_until(lambda: (index.watch.look(), shown())[1] == (True, []))
    index.watch.look()
    assert shown() == (False, ["a"])
    index.stop()


def test_an_index_of_a_later_klarm_is_built_again() -> None:
    """Rather than misread."""
    write_steps("a", {1: {"kl": 0.1}})
    watched = Watched()
    watched.look()
    watched.database.writer.execute("INSERT INTO migrations VALUES ('from_the_future')")
    watched.database.close()
    again = Watched()
    again.look()
    assert "written by a later version of klarm: from_the_future" in again.said[0][1]
    assert again.steps() == {"a": 1}
    again.database.close()


def test_a_full_disk_loses_nothing() -> None:
    """What is new is not shown until there is room, and that is said once."""
    write_steps("a", {1: {"kl": 0.1}})
    watched = Watched()
    watched.look()
    writer = watched.database.writer
    (pages,) = writer.execute("PRAGMA page_count").fetchone()
    writer.execute(f"PRAGMA max_page_count = {pages}")
    write_steps("a", {step: {"kl": step / 7, "reward": 0.1} for step in range(2, 5000)})
    watched.now += 10
    for _ in range(3):
        watched.watch.look()
    assert watched.steps() == {"a": 1}
    assert [text for _, text in watched.said] == [
        "the index cannot be written (database or disk is full): new data is not shown"
    ]
    writer.execute("PRAGMA max_page_count = 1000000")
    watched.look()
    assert watched.steps() == {"a": 4999}
    watched.database.close()


def test_a_server_that_may_not_write_more_says_so_and_the_next_one_shows_all() -> None:
    """As on a full disk or beyond a quota: the file system itself refuses."""
    write_steps("a", {step: {"kl": step % 13 / 10, "reward": 0.5} for step in range(30_000)})
    script = (
        "import resource, sys; from pathlib import Path; from klarm.server import PageServer; "
        "server = PageServer(Path('runs'), lambda text: print(text, flush=True), port=0); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY)); "
        "server.start(); print('port', server.port, flush=True); sys.stdin.read()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        port, said = 0, ""
        while not (port and "the index cannot be written" in said):
            line = process.stdout.readline()
            assert line, said
            said += line
            port = int(line.split()[1]) if line.startswith("port ") else port
        assert "new data is not shown" in said
        client = Client(port)
        texts = [notice["text"] for notice in client.get("/status")["notices"]]
        assert any("the index cannot be written" in text for text in texts)
        assert client.get("/health")["status"] == "ok"
    finally:
        process.kill()
        process.communicate()
    with served() as client:
        assert client.get("/runs/a")["steps"] == 30_000


def test_two_servers_of_one_folder_do_not_disturb_each_other() -> None:
    """The second builds an index of its own."""
    write_steps("a", {1: {"kl": 0.1}})
    said: list[str] = []
    with served() as first, served(say=said.append) as second:
        assert first.get("/runs")["runs"] == second.get("/runs")["runs"]
        assert second.get("/status")["index"]["place"] == "in a temporary folder"
    assert "another klarm serve" in said[0]


def test_where_the_folder_cannot_be_written_the_index_is_in_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing is left beside the runs."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    write_steps("a", {1: {"kl": 0.1}})
    (RUNS / ".klarm-index.lock").mkdir()  # nobody, not even root, can open it
    with served() as client:
        assert client.get("/status")["index"]["place"] == "in the cache folder"
        assert client.get("/runs/a")["steps"] == 1
    assert not (RUNS / INDEX_FILE).exists()
    assert list((tmp_path / "cache" / "klarm").glob("index-*.sqlite"))


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
    for end in ("", "-wal", "-shm"):
        (RUNS / f"{INDEX_FILE}{end}").unlink(missing_ok=True)
    with served() as client:  # built again
        assert client.get("/runs/a/series?metrics=kl&width=50")["series"]["kl"] == found
        assert client.get("/runs/b/incidents")["incidents"] == incidents
    fold = Fold(RUNS / "b" / FILE_NAME)
    fold.update()
    assert [known["id"] for known in incidents] == list(fold.incidents)


def test_migrations_are_whole_or_not_at_all() -> None:
    """A database that was left half made is finished."""
    from klarm.server.migrations import MIGRATIONS, migrate

    made = sqlite3.connect(":memory:", isolation_level=None)
    assert migrate(made) == [migration.__name__ for migration in MIGRATIONS]
    assert migrate(made) == []
    made.close()


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
