"""What breaks around a run, in processes of their own: a clear message, nothing lost."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

import klarm
from full_disk import FILL_UP
from klarm.journal.file import read_journal
from recorded_lines import lines_of

pytestmark = pytest.mark.usefixtures("one_detector")

JOURNAL = Path("klarm_runs/a/journal.jsonl")


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def recorded_steps() -> list[int]:
    return [line["step"] for line in lines_of("a", "step")]


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 5))]
)
def test_killed_at_a_random_moment_every_logged_step_is_on_disk(seed: int) -> None:
    """`kill -9` loses at most the line being written, and the run can be resumed."""
    code = """
        import klarm
        monitor = klarm.init("a", console=False)
        for step in range(10**9):
            monitor.log({"kl": 0.1 + step % 7 / 100, "reward": 1.0}, step)
            print(step, flush=True)
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(random.Random(seed).uniform(0.0, 0.15))
        process.send_signal(signal.SIGKILL)
        confirmed = [int(line) for line in process.stdout.read().split()]
    steps = recorded_steps()
    assert steps == list(range(len(steps)))
    assert len(steps) > confirmed[-1]
    klarm.init("a", console=False)
    klarm.log({"kl": 0.1})
    assert recorded_steps()[-1] == len(steps)


def test_a_full_disk_is_said_once_and_training_goes_on() -> None:
    """/dev/full takes no byte: the run is watched all the same."""
    done = run_python(f"""
        import klarm
        klarm.init("a")
        {FILL_UP}
        for step in range(100):
            klarm.log({{"kl": 0.1}}, step)
        (alert,) = klarm.log({{"kl": float("nan")}}, 100)
        print(alert.severity)
    """)
    assert (done.returncode, done.stdout) == (0, "critical\n")
    assert done.stderr.count("cannot write klarm_runs/a/journal.jsonl (No space left") == 1
    assert "journal.jsonl is incomplete" in done.stderr


def test_a_disk_that_has_room_again_gets_every_line() -> None:
    """A limit on the file's size stands for it: a write stops half-way, and later goes on there."""
    done = run_python("""
        import os, resource, klarm
        unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
        monitor = klarm.init("a")
        for step in range(300):
            if step == 100:
                size = os.stat("klarm_runs/a/journal.jsonl").st_size
                resource.setrlimit(resource.RLIMIT_FSIZE, (size + 130, unlimited[1]))
            if step == 200:
                resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
            monitor.log({"kl": 0.1, "reward": 1.0}, step)
    """)
    assert done.returncode == 0
    assert recorded_steps() == list(range(300))
    assert done.stderr.count("cannot write") == 1
    assert done.stderr.count("can be written again") == 1


def test_a_directory_that_cannot_be_written_is_said_once_and_training_goes_on() -> None:
    """As an ordinary user: root may write everywhere."""
    Path().chmod(0o755)
    Path("readonly").mkdir(mode=0o555)
    done = run_python("""
        import os, klarm
        klarm.init("warm", console=False)  # what it imports may be out of the other user's reach
        klarm.finish()
        if os.geteuid() == 0:
            os.seteuid(65534)
        klarm.init("a", dir="readonly/runs")
        for step in range(100):
            klarm.log({"kl": 0.1}, step)
        (alert,) = klarm.log({"kl": float("nan")}, 100)
        print(alert.severity)
    """)
    assert (done.returncode, done.stdout) == (0, "critical\n")
    assert done.stderr.count("cannot write readonly/runs/a (Permission denied)") == 1
    assert "set KLARM_DIR to a directory that can be written" in done.stderr


def test_a_directory_that_cannot_be_looked_into_is_said_once_and_training_goes_on() -> None:
    """Not even whether there is a journal is known."""
    Path().chmod(0o755)
    Path("closed").mkdir(mode=0o700)
    done = run_python("""
        import os, klarm
        klarm.init("warm", console=False)  # what it imports may be out of the other user's reach
        klarm.finish()
        if os.geteuid() == 0:
            os.seteuid(65534)
        else:
            os.chmod("closed", 0)
        klarm.init("a", dir="closed/runs")
        (alert,) = klarm.log({"kl": float("nan")}, 0)
        print(alert.severity)
    """)
    assert (done.returncode, done.stdout) == (0, "critical\n")
    assert done.stderr.count("cannot write closed/runs/a (Permission denied)") == 1


def test_a_file_where_the_directory_should_be_is_said_too() -> None:
    """For root as well."""
    Path("klarm_runs").write_text("not a directory")
    monitor = klarm.init("a", console=False)
    assert monitor.log({"kl": float("nan")})
    assert Path("klarm_runs").read_text() == "not a directory"


def test_after_a_fork_only_the_parent_writes() -> None:
    """The child says once that it stays silent; the parent's record is whole."""
    done = run_python("""
        import os, klarm
        monitor = klarm.init("a")
        for step in range(50):
            monitor.log({"kl": 0.1}, step)
        child = os.fork()
        for step in range(50, 100):
            assert monitor.log({"kl": 0.1}, step) == []
        if child == 0:
            monitor.checkpoint(100, "nowhere")
            klarm.finish()
        else:
            os.waitpid(child, 0)
    """)
    assert done.returncode == 0
    assert recorded_steps() == list(range(100))
    kinds = [type(record).__name__ for record in read_journal(JOURNAL)]
    assert kinds.count("Finish") == 1
    assert "Checkpoint" not in kinds
    assert done.stderr.count("this process was forked") == 1


def test_two_live_processes_never_mix_their_records() -> None:
    """The second watches, and says that it records nothing and why."""
    first = klarm.init("a", console=False)
    first.log({"kl": 0.1}, 0)
    done = run_python("""
        import klarm
        klarm.init("a")
        print(klarm.log({"kl": float("nan")}, 0)[0].severity)
    """)
    assert (done.returncode, done.stdout) == (0, "critical\n")
    assert "another live process records run a" in done.stderr
    assert "in a distributed run, give klarm.init the rank" in done.stderr
    assert recorded_steps() == [0]


def test_a_child_left_behind_does_not_keep_a_run_from_being_resumed() -> None:
    """The parent is killed while a forked worker lives on."""
    done = run_python("""
        import os, signal, subprocess, sys, time, klarm
        klarm.init("a")
        klarm.log({"kl": 0.1}, 0)
        if os.fork() == 0:
            sys.stdout.close(); os.close(1); os.close(2)
            time.sleep(30)
            os._exit(0)
        os.kill(os.getpid(), signal.SIGKILL)
    """)
    assert done.returncode == -signal.SIGKILL
    klarm.init("a", console=False)
    klarm.log({"kl": 0.1})
    assert recorded_steps() == [0, 1]


def test_a_forked_process_can_watch_a_run_of_its_own() -> None:
    """By calling init there."""
    done = run_python("""
        import os, klarm
        klarm.init("a")
        klarm.log({"kl": 0.1}, 0)
        child = os.fork()
        if child == 0:
            klarm.init("b")
            klarm.log({"kl": 0.2}, 0)
            klarm.finish()
            os._exit(0)
        os.waitpid(child, 0)
        klarm.log({"kl": 0.1}, 1)
    """)
    assert done.returncode == 0
    assert recorded_steps() == [0, 1]
    assert [type(r).__name__ for r in read_journal("klarm_runs/b/journal.jsonl")] == [
        "Started",
        "Step",
        "Finish",
    ]


@pytest.mark.parametrize(
    "ending", ["sys.exit(3)", "raise ValueError('training failed')", "pass", "os.abort()"]
)
def test_however_a_process_ends_its_alerts_are_recorded(ending: str) -> None:
    """And that the incident was open when it ended; the way it ends is its own."""
    done = run_python(f"""
        import os, sys, klarm
        klarm.init("a")
        klarm.log({{"kl": float("nan")}}, 0)
        {ending}
    """)
    assert done.returncode == {"s": 3, "r": 1, "p": 0, "o": -signal.SIGABRT}[ending[0]]
    kinds = [type(record).__name__ for record in read_journal(JOURNAL)]
    assert kinds[:4] == ["Started", "Step", "Alert", "Event"]
    crash = ["Event"] * ("raise" in ending)  # is an incident of its own
    assert kinds[4:] == ([] if "abort" in ending else ["Finish", "Event", *crash])


def test_a_clock_that_goes_back_changes_nothing_but_the_times() -> None:
    """Nothing is decided by the clock."""
    from klarm.detectors import KLExplosionDetector
    from klarm.journal.file import FileJournal
    from klarm.monitor.monitor import Monitor

    times = iter([1000.0, 500.0, 501.0, 1e18, 2.0])
    journal = FileJournal(Path("klarm_runs/a"), print)
    monitor = Monitor("a", [KLExplosionDetector()], journal, clock=lambda: next(times))
    for step in range(4):
        monitor.log({"kl": 0.1}, step)
    monitor.finish()
    assert recorded_steps() == [0, 1, 2, 3]


def test_training_threads_may_log_together() -> None:
    """No step is lost or torn."""
    done = run_python("""
        import threading, klarm
        monitor = klarm.init("a", console=False)
        def work():
            for _ in range(500):
                monitor.log({"kl": 0.1, "reward": 1.0})
        threads = [threading.Thread(target=work) for _ in range(8)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
    """)
    assert (done.returncode, done.stderr) == (0, "")
    assert recorded_steps() == list(range(4000))


def test_logging_in_a_signal_handler_neither_hangs_nor_corrupts() -> None:
    """A handler that logs while a log is under way, thousands of times, with the thread on."""
    done = run_python("""
        import signal, klarm
        from klarm.journal import appender
        from klarm import boundary
        boundary.raise_failures = True
        appender._SLOW_SECONDS = appender._MAX_HANG_SECONDS = 0.0  # the thread takes over
        monitor = klarm.init("a", console=False)
        def handler(signum, frame):
            monitor.log({"kl": 0.1, "from/handler": 1.0})
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.0002, 0.0002)
        for _ in range(20_000):
            monitor.log({"kl": 0.1})
        signal.setitimer(signal.ITIMER_REAL, 0)
        klarm.finish()
    """)
    assert (done.returncode, done.stderr) == (0, "")
    steps = recorded_steps()
    assert steps == list(range(len(steps)))
    assert len(steps) >= 20_000


def test_logging_while_another_thread_finishes_never_writes_into_a_foreign_file() -> None:
    """A descriptor that is closed may belong to somebody else a moment later."""
    done = run_python("""
        import threading, klarm
        for i in range(20):
            monitor = klarm.init(f"r{i}", console=False)
            go = threading.Event()
            def work():
                go.wait()
                for _ in range(200):
                    monitor.log({"kl": 0.1})
            threads = [threading.Thread(target=work) for _ in range(4)]
            [thread.start() for thread in threads]
            go.set()
            monitor.finish()
            files = [open(f"mine-{i}-{j}", "w") for j in range(5)]
            [thread.join() for thread in threads]
            [file.close() for file in files]
    """)
    assert done.returncode == 0
    assert [path.name for path in Path().glob("mine-*") if path.stat().st_size] == []


def test_a_stderr_pipe_that_nobody_reads_does_not_stop_training() -> None:
    """It is full after some dozens of messages; what cannot be shown is not shown."""
    read_end, write_end = os.pipe()
    code = (
        "import klarm; klarm.init('a')\n"
        "for step in range(3000): klarm.log({'kl': float('nan')}, step)\n"
        "print('done')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=write_end,
        text=True,
        timeout=60,
        check=False,
    )
    os.close(read_end)
    os.close(write_end)
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert len(recorded_steps()) == 3000


def test_a_script_that_changes_its_directory_can_still_roll_back() -> None:
    """The journal is found again from anywhere."""
    Path("elsewhere").mkdir()
    monitor = klarm.init("a", console=False)
    for step in range(100):
        monitor.log({"kl": 0.4 + 0.2 * (step % 2)}, step)
    os.chdir("elsewhere")
    monitor.log({"kl": 0.5}, 80)
    assert monitor.log({"kl": 5.0}, 81)


def test_a_journal_that_was_deleted_is_not_taken_for_an_empty_one() -> None:
    """The baselines stay as they are."""
    monitor = klarm.init("a", console=False)
    for step in range(100):
        monitor.log({"kl": 0.4 + 0.2 * (step % 2)}, step)
    JOURNAL.unlink()
    monitor.log({"kl": 0.5}, 80)
    assert monitor.log({"kl": 5.0}, 81)


def test_a_journal_with_bytes_that_are_no_text_can_be_resumed() -> None:
    """The line is passed over."""
    klarm.init("a", console=False)
    klarm.log({"kl": 0.1}, 0)
    klarm.finish()
    with JOURNAL.open("ab") as file:
        file.write(b'{"type":"step","step":1,"time":1.0,"metrics":{"\xff\xfe":1}}\n')
        file.write(b"[" * 100_000 + b"\n")
    klarm.init("a", console=False)
    klarm.log({"kl": 0.1})
    assert [type(record).__name__ for record in read_journal(JOURNAL)][-1] == "Step"


def test_a_forked_worker_of_multiprocessing_writes_its_last_lines() -> None:
    """Such a process leaves without running atexit."""
    done = run_python("""
        import multiprocessing
        def work():
            import klarm
            from klarm.journal import appender
            appender._SLOW_SECONDS = appender._MAX_HANG_SECONDS = 0.0
            klarm.init("a", console=False)
            for step in range(5_000):
                klarm.log({"kl": 0.1}, step)
        process = multiprocessing.get_context("fork").Process(target=work)
        process.start()
        process.join()
    """)
    assert done.returncode == 0
    assert recorded_steps() == list(range(5_000))


def test_an_incomplete_end_does_not_keep_the_run_from_being_taken_up_again() -> None:
    """The disk was full when it ended; now there is room."""
    klarm.init("a", console=False)
    exec(FILL_UP)
    klarm.log({"kl": 0.1})
    klarm.finish()
    klarm.init("a", console=False)
    klarm.log({"kl": 0.1})
    assert recorded_steps() == [0]


def test_a_stderr_that_nobody_reads_any_more_ends_nothing() -> None:
    """A pipe broken at the other end."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    code = "import klarm; klarm.init('a'); print(klarm.log({'kl': float('nan')})[0].severity)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=write_end,
        text=True,
        timeout=60,
        check=False,
    )
    os.close(write_end)
    assert (done.returncode, done.stdout) == (0, "critical\n")


def test_a_journal_that_was_deleted_is_missed_at_the_end(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Training is not disturbed, and nobody is left to look for it."""
    klarm.init("a")
    klarm.log({"kl": 0.1})
    Path("klarm_runs/a/journal.jsonl").unlink()
    klarm.log({"kl": 0.1})
    klarm.finish()
    assert "a/journal.jsonl is gone: it was deleted while" in capsys.readouterr().err
