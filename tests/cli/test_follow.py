"""`klarm follow`, run as a user runs it, beside a log that is being written."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import klarm
from cli.commands import Done, run_klarm
from klarm.analysis.replay import ids_in, replay
from klarm.cli.stopping import Stopping
from klarm.cli.watch import Watch
from klarm.config import load
from klarm.journal import record_command
from klarm.journal.file import FILE_NAME, read_journal
from klarm.journal.records import Finish, Step
from klarm.runs import read_run
from klarm.sources import read_log
from klarm.sources.follow import Follower
from klarm.types import Alert, Command, Event

pytestmark = pytest.mark.usefixtures("one_detector")

COMMAND = [sys.executable, "-m", "klarm", "follow"]
LOG = Path("log.jsonl")
JOURNAL = Path("klarm_runs/log/journal.jsonl")
QUIET = [0.4, 0.6] * 50


def follow(*arguments: str) -> Done:
    return run_klarm("follow", *arguments)


def klarm_lines(*arguments: str) -> list[str]:
    """Return what another command of klarm prints."""
    done = run_klarm(*arguments, COLUMNS="200")
    assert done.returncode == 0
    return done.stdout.splitlines()


def write(values: list[float], first: int = 0, path: Path = LOG) -> None:
    with path.open("a") as file:
        for step, value in enumerate(values, start=first):
            file.write(json.dumps({"step": step, "kl": value}) + "\n")


def recorded_steps(journal: Path = JOURNAL) -> list[int]:
    return [record.step for record in read_journal(journal) if isinstance(record, Step)]


@contextmanager
def following(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run it until it is stopped; its messages are on stderr."""
    with subprocess.Popen(
        [*COMMAND, *arguments, "--poll", "0.02"], stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def until(process: subprocess.Popen[str], words: str) -> str:
    """Read its output up to a line with these words."""
    assert process.stderr is not None
    for line in process.stderr:
        if words in line:
            return line
    pytest.fail(f"it never said {words!r}")


def test_once_reads_the_log_and_continues_the_next_time() -> None:
    """Each row is logged once, and nothing is recorded when nothing is new."""
    write([*QUIET, math.nan])
    done = follow(str(LOG), "--once")
    assert done.returncode == 0
    assert "klarm INCIDENT 1 on kl opened, critical, step 100: kl is NaN" in done.stderr
    assert "run log as of step 100 (101 new rows): 1 incident; see klarm " in done.stderr
    size = JOURNAL.stat().st_size
    again = follow(str(LOG), "--once")
    assert again.returncode == 0
    assert again.stderr == (
        "klarm: nothing new since step 100; incident 1 on kl is open (critical, began at step "
        "100)\n"
    )
    assert JOURNAL.stat().st_size == size
    write([0.5, 0.5], first=101)
    continued = "run log continues at step 101; incident 1 on kl is still open\n"
    assert continued in follow(str(LOG), "--once").stderr
    assert recorded_steps() == list(range(103))
    assert len([r for r in read_journal(JOURNAL) if isinstance(r, Alert)]) == 1


def test_a_log_with_negated_entropy_is_also_logged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The journal has the entropy itself; the log is compared after the sign is changed."""
    monkeypatch.setenv("KLARM_FRAMEWORK", "sb3")
    monkeypatch.setenv("KLARM_ENTROPY_COLLAPSE__ENABLED", "true")
    LOG.write_text('{"step": 0, "entropy_loss": -2.0}\n{"step": 1, "entropy_loss": -1.5}\n')
    for _ in range(2):
        assert follow(str(LOG), "--once").returncode == 0
    steps = [record for record in read_journal(JOURNAL) if isinstance(record, Step)]
    assert [step.metrics for step in steps] == [{"entropy": 2.0}, {"entropy": 1.5}]


def test_a_growing_log_is_watched_until_ctrl_c() -> None:
    """It starts before the log exists, and exits cleanly."""
    with following(str(LOG)) as process:
        until(process, "log.jsonl does not exist yet; waiting for it")
        write(QUIET)
        until(process, "klarm: watching")
        write([math.nan], first=100)
        until(process, "INCIDENT 1 on kl opened, critical, step 100")
        process.send_signal(signal.SIGINT)
        said = until(process, "stopped following run log at step 100")
        assert "; incident 1 on kl is still open; see klarm incidents klarm_runs/log" in said
        assert process.wait(60) == 0
    *_, finish = read_journal(JOURNAL)
    assert isinstance(finish, Finish)
    assert finish.outcome == "detached"


def test_stopping_the_follower_is_not_the_end_of_the_run() -> None:
    """Training goes on: incidents stay open, and the next follower continues without a word.

    A command that is given meanwhile does not end the other incidents either.
    """
    write([*QUIET, math.nan])
    for first, number in ((101, signal.SIGINT), (102, signal.SIGTERM)):
        with following(str(LOG)) as process:
            until(process, "INCIDENT 1 on kl opened" if first == 101 else "continues at step 101")
            process.send_signal(number)
            assert process.wait(60) == 0
        write([0.5], first=first)
    assert [e.event for e in read_journal(JOURNAL) if isinstance(e, Event)] == ["opened"]
    run = read_run(JOURNAL.parent)
    assert run.activity == "detached"
    assert [known.state for known in run.incidents.values()] == ["open"]
    command = Command(command="ack", key="k", time=0.0, by="ada")
    assert record_command(JOURNAL.parent, command, print)
    klarm.init("log", console=False)  # it logs nothing
    klarm.finish()
    assert [e.event for e in read_journal(JOURNAL) if isinstance(e, Event)] == ["opened"]
    replayed = replay(read_log(JOURNAL, print), lambda _: load(None, {}), ids_in(JOURNAL))
    assert [event.event for event in replayed.events] == ["opened"]


def test_a_follower_without_new_rows_says_what_it_follows_and_how_the_run_is() -> None:
    """So that nobody wonders whether it runs; it records nothing."""
    write([*QUIET, math.nan])
    follow(str(LOG), "--once")
    size = JOURNAL.stat().st_size
    nothing = "nothing new since step 100; incident 1 on kl is open (critical, began at step 100)\n"
    with following(str(LOG)) as process:
        assert until(process, "following") == f"klarm: following log.jsonl; {nothing}"
        process.send_signal(signal.SIGINT)
        assert until(process, "stopped") == f"klarm: stopped following log.jsonl; {nothing}"
        assert process.wait(60) == 0
    assert JOURNAL.stat().st_size == size


def test_reading_a_log_once_is_not_the_end_of_the_run() -> None:
    """A cron job reads what is there while training goes on: incidents stay open without a word."""
    write([*QUIET, math.nan])
    done = follow(str(LOG), "--once")
    assert "ended" not in done.stderr
    assert done.stderr.endswith(
        "klarm: run log as of step 100 (101 new rows): 1 incident; see klarm incidents "
        "klarm_runs/log\n  1 on kl: critical, began at step 100, still open\n"
    )
    write([math.nan], first=101)
    done = follow(str(LOG), "--once")
    assert "reopened" not in done.stderr
    assert "run log as of step 101 (1 new row): 1 incident; see" in done.stderr
    assert [e.event for e in read_journal(JOURNAL) if isinstance(e, Event)] == ["opened"]
    assert klarm_lines("runs")[1].split()[:3] == ["log", "not", "followed"]
    assert klarm_lines("show")[0] == "run log: not followed, critical"
    assert klarm_lines("incidents")[2].split()[4] == "open"


@pytest.mark.parametrize("idle", [["--until-idle", "0"], ["-"]])
def test_an_idle_log_or_the_end_of_stdin_is_the_end_of_the_run(idle: list[str]) -> None:
    """The user said so, or the trainer closed the pipe."""
    write([*QUIET, math.nan])
    arguments = [*(idle if idle == ["-"] else [str(LOG), *idle]), "--run", "log", "--poll", "0.02"]
    done = run_klarm("follow", *arguments, given=LOG.read_bytes())
    assert "run log ended after 101 rows: 1 incident" in done.stderr
    events = [e.event for e in read_journal(JOURNAL) if isinstance(e, Event)]
    assert events == ["opened", "ended"]
    assert klarm_lines("runs")[1].split()[:2] == ["log", "finished"]


def test_an_empty_log_is_said_to_be_followed() -> None:
    """It exists, so klarm does not say that it waits for it."""
    LOG.touch()
    said, *_ = follow(str(LOG), "--until-idle", "0").stderr.splitlines()
    assert said == "klarm: following log.jsonl; it has no rows yet"


def test_every_row_is_logged_once_although_follow_was_killed() -> None:
    """It is killed with `kill -9` while it reads."""
    write(QUIET)
    with following(str(LOG)) as process:
        until(process, "klarm: watching")
        process.send_signal(signal.SIGKILL)
        process.wait(60)
    write([*QUIET, math.nan], first=100)
    with following(str(LOG)) as process:
        until(process, "INCIDENT 1 on kl opened, critical, step 200")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    assert recorded_steps() == list(range(201))


def test_a_log_that_is_truncated_while_it_is_followed_is_a_restart() -> None:
    """verl truncates its log when it is restarted."""
    write([*QUIET[:-1], math.nan])
    with following(str(LOG)) as process:
        until(process, "INCIDENT 1 on kl opened, critical, step 99")  # it has read them all
        LOG.write_text("")
        until(process, "log.jsonl was truncated or replaced")
        write([0.51, 0.52], first=80)
        until(process, "run log continues at step 80; steps 80 to 99 are rolled back")


@pytest.mark.parametrize(("values", "code"), [(QUIET, 0), ([*QUIET, math.nan], 1)])
def test_fail_on_critical_sets_the_exit_code(values: list[float], code: int) -> None:
    """An incident of an earlier process counts, too."""
    write(values)
    for _ in range(2):
        done = follow(str(LOG), "--once", "--fail-on", "critical")
        assert done.returncode == code
    standing = (
        "incident 1 on kl is open (critical, began at step 100)" if code else "no incident is open"
    )
    assert done.stderr == f"klarm: nothing new since step {len(values) - 1}; {standing}\n"


def test_a_second_follow_of_the_same_run_exits() -> None:
    """Two processes would notify people twice."""
    klarm.init("log", console=False)
    write([0.1])
    done = follow(str(LOG), "--once")
    assert done.returncode == 2
    assert done.stderr == (
        "klarm: log.jsonl is not followed: another live process records run log\n"
    )


def test_a_folder_that_cannot_be_written_is_said_once() -> None:
    """Without a record, people would be notified again whenever it is started."""
    write([0.1])
    Path("klarm_runs").write_text("a file where the folder should be")
    done = follow(str(LOG), "--once")
    assert done.returncode == 2
    assert done.stderr == (
        "klarm: log.jsonl is not followed: cannot write klarm_runs/log (Not a directory); set "
        "KLARM_DIR to a directory that can be written\n"
    )


def test_a_hint_names_an_option_that_the_command_has() -> None:
    """In a training script, it names a setting instead."""
    LOG.write_text('{"step": 1, "my_kl": 0.1, "reward": 1.0}\n' * 3)
    done = follow(str(LOG), "--once")
    assert "is that (KL of the policy to the reference model), use --map kl=my_kl\n" in done.stderr


def test_another_log_of_the_same_name_is_not_taken_for_the_same_run() -> None:
    """The user can say that it is the same run."""
    write([0.1, 0.2])
    assert follow(str(LOG), "--once").returncode == 0
    other = Path("other") / LOG
    other.parent.mkdir()
    write([0.3], path=other)
    done = follow(str(other), "--once")
    assert done.returncode == 2
    assert "name this one with --run, or give --run log if it is the same run" in done.stderr
    assert follow(str(other), "--once", "--run", "mine").returncode == 0
    assert recorded_steps(Path("klarm_runs/mine") / FILE_NAME) == [0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.jsonl", "--once"], "missing.jsonl does not exist"),
        (["missing.jsonl", "--until-idle", "0"], "missing.jsonl does not exist"),
        (["junk.txt", "--once"], "junk.txt holds no rows: klarm follow reads CSV"),
        (["empty", "--once"], "empty holds no event files: klarm follow reads"),
        (["empty", "--until-idle", "0"], "empty holds no event files: klarm follow reads"),
        (["trainer_state.json", "--once"], "trainer_state.json holds no rows"),
        (["log.jsonl", "--config", "no.yaml"], "config file 'no.yaml' does not exist"),
        (["log.jsonl", "--run", "a/b"], "run 'a/b' cannot be the name of a folder; try 'a-b'"),
        (["log.jsonl", "--poll", "0"], "Invalid value for '--poll'"),
    ],
)
def test_mistakes_are_one_line_errors(arguments: list[str], message: str) -> None:
    """The exit code is 2, and there is no traceback."""
    Path("junk.txt").write_text("junk\n")
    Path("empty").mkdir()
    Path("trainer_state.json").write_text('{"log_history": []}')
    done = follow(*arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert "waiting" not in done.stderr or "--once" not in arguments


def test_until_idle_ends_it_when_nothing_was_added() -> None:
    """Each row restarts the time; the test controls the clock."""
    write([0.1])
    now = iter([0.0, 1.0, 9.0, 9.0, 18.9, 19.0])

    def clock() -> float:
        time = next(now)
        if time == 9.0 and len(LOG.read_text().splitlines()) == 1:
            write([0.2], first=1)  # seen after it was idle for eight seconds
        return time

    follower = Follower(LOG, JOURNAL, pytest.fail)
    watch = Watch(follower, lambda: klarm.init("log", console=False))
    watch.until(Stopping(), poll_seconds=0.0, idle_seconds=10.0, clock=clock)
    assert recorded_steps() == [0, 1]
    assert list(now) == []


def test_the_settings_of_the_folder_are_used() -> None:
    """As in a training process, klarm.yaml names the run and configures detectors."""
    Path("klarm.yaml").write_text("run: mine\nkl_explosion: {sigma_multiplier: 90}\n")
    write([*QUIET, 5.0])
    done = follow(str(LOG), "--once")
    assert "run mine as of step 100 (101 new rows): no incident" in done.stderr


def test_a_closed_stderr_does_not_end_it() -> None:
    """It continues to record."""
    write(QUIET)
    read, write_end = os.pipe()
    os.close(read)
    done = subprocess.run([*COMMAND, str(LOG), "--once"], stderr=write_end, timeout=60, check=False)
    os.close(write_end)
    assert done.returncode == 0
    assert recorded_steps() == list(range(100))


@pytest.mark.parametrize(
    ("first", "then"), [([], ["--step-column", "tick"]), (["--step-column", "tick"], [])]
)
def test_another_step_column_is_refused_instead_of_logging_all_rows_again(
    first: list[str], then: list[str]
) -> None:
    """The same rows have other steps then, which looked like a rollback or like new rows."""
    rows = [f"{10 * row},{0.4 + 0.2 * (row % 2)}" for row in range(40)]
    Path("log.csv").write_text("\n".join(["tick,kl", *rows, ""]))
    assert follow("log.csv", "--once", *first).returncode == 0
    before = JOURNAL.read_bytes()
    done = follow("log.csv", "--once", *then)
    assert done.returncode == 2
    assert "step column" in done.stderr
    assert "--run" in done.stderr
    assert JOURNAL.read_bytes() == before
    assert follow("log.csv", "--once", "--run", "another", *then).returncode == 0
    assert "nothing new" in follow("log.csv", "--once", *first).stderr  # as before, it goes on
