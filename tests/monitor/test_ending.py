"""How a training ended: recorded and reported as what it was, whatever the program does.

Covers ending.py and last_changes.py.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import klarm
from cases import over
from klarm import api
from klarm.monitor.ending import Ending, EndWatch
from recorded_lines import lines_of

START = """
import os, signal, sys, klarm
monitor = klarm.init("a")
klarm.log({"kl": 0.1}, 1)
"""


def run(script: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run a script in which a run starts anew."""
    shutil.rmtree("klarm_runs", ignore_errors=True)
    return subprocess.run(
        [sys.executable, *options, "-c", START + script],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=dict(os.environ),
    )


def ending(name: str = "a") -> tuple[str, str]:
    (finish,) = lines_of(name, "finish")
    return finish.get("outcome", ""), finish.get("error", "")


def test_a_crash_is_recorded_and_reported_as_one() -> None:
    """Exit code and traceback are as they would be without klarm."""
    done = run("raise RuntimeError('out of memory')")
    assert done.returncode == 1
    assert ending() == ("crashed", "RuntimeError: out of memory")
    assert "Traceback (most recent call last):" in done.stderr
    said = "run a crashed after 1 row (RuntimeError: out of memory): the crash is incident 1; apart"
    assert f"{said} from it, no incident" in done.stderr


def test_an_interruption_is_reported_as_one() -> None:
    """Ctrl-C: the process ends by the signal, as a shell expects it to."""
    done = run("os.kill(os.getpid(), signal.SIGINT)\nimport time; time.sleep(30)")
    assert done.returncode == -signal.SIGINT
    assert ending() == ("interrupted", "KeyboardInterrupt")
    assert "run a was interrupted after 1 row (KeyboardInterrupt)" in done.stderr


@pytest.mark.parametrize("script", ["", "sys.exit()", "sys.exit(0)"])
def test_a_script_that_ends_has_ended_well(script: str) -> None:
    """As the last line of many scripts has it."""
    done = run(script)
    assert done.returncode == 0
    assert ending() == ("", "")
    assert "run a ended after 1 row: no incident" in done.stderr


@over("script, code, expected", [
        ("sys.exit(1)", 1, ("stopped", "SystemExit: 1")),
        ("sys.exit('no data')", 1, ("stopped", "SystemExit: no data")),
        ("sys.exit('')", 1, ("stopped", "SystemExit")),
        ("try: 1 / 0\nexcept ZeroDivisionError: sys.exit(1)", 1,
         ("crashed", "ZeroDivisionError: division by zero")),
        ("try: 1 / 0\nexcept ZeroDivisionError: sys.exit('no data')", 1,
         ("stopped", "SystemExit: no data")),
        ("try: 1 / 0\nexcept ZeroDivisionError: sys.exit(0)", 0, ("", "")),
        ("try: raise KeyboardInterrupt\nexcept KeyboardInterrupt: sys.exit(130)", 130,
         ("interrupted", "KeyboardInterrupt")),
    ])  # fmt: skip
def test_an_exit_with_an_error_is_recorded(
    script: str, code: int, expected: tuple[str, str]
) -> None:
    """In a plain loop: Python itself keeps nothing of it until the run ends."""
    done = run(script)
    assert done.returncode == code
    assert ending() == expected
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "script",
    [
        "try: sys.exit(1)\nexcept SystemExit: klarm.log({'kl': 0.1}, 2)",
        "import threading\nt = threading.Thread(target=sys.exit, args=(1,)); t.start(); t.join()",
        "try: sys.exit(1)\nexcept SystemExit: sys.exit(0)",
    ],
    ids=["trained on", "another thread", "another exit"],
)
def test_an_exit_that_ends_nothing_is_not_the_end(script: str) -> None:
    """The run went on after it, and ended well."""
    done = run(script)
    assert done.returncode == 0
    assert ending() == ("", "")


def test_sys_exit_is_what_it_was_after_the_run() -> None:
    """Also if another tool has put its own function there meanwhile: that one stays."""
    before = sys.exit
    klarm.init("a", console=False)
    assert sys.exit is not before
    klarm.finish()
    assert sys.exit is before
    klarm.init("b", console=False)

    def another(*_: object) -> None: ...

    sys.exit = another  # type: ignore[assignment]
    klarm.finish()
    found, sys.exit = sys.exit, before
    assert found is another


def test_klarm_that_is_disabled_leaves_sys_exit_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever disables it wants to be sure."""
    before = sys.exit
    monkeypatch.setenv("KLARM_DISABLED", "1")
    klarm.init("a", console=False)
    assert sys.exit is before


def test_an_exception_in_another_thread_is_not_seen() -> None:
    """The documentation says so; the thread may not be one that trains."""
    script = "import threading\nt = threading.Thread(target=lambda: 1 / 0); t.start(); t.join()"
    done = run(script)
    assert "ZeroDivisionError" in done.stderr
    assert ending() == ("", "")


def test_what_a_with_statement_sees_is_recorded() -> None:
    """An exit with an error, too, which nobody sees at the end of the process."""
    done = run("with monitor: sys.exit(3)")
    assert done.returncode == 3
    assert ending() == ("stopped", "SystemExit: 3")
    assert "run a stopped after 1 row (SystemExit: 3)" in done.stderr


def test_finish_in_a_finally_block_knows_what_is_under_way() -> None:
    """Though the program handles the error itself later."""
    with pytest.raises(ZeroDivisionError):
        fail_and_finish()
    assert ending() == ("crashed", "ZeroDivisionError: division by zero")


def fail_and_finish() -> None:
    klarm.init("a", console=False)
    try:
        print(1 / 0)
    finally:
        klarm.finish()


def test_the_end_of_the_data_is_no_crash() -> None:
    """Loops over a stream end with StopIteration."""
    klarm.init("a", console=False)
    try:
        next(iter(()))
    except StopIteration:
        klarm.finish()
    assert ending() == ("", "")


def test_an_error_from_before_the_run_is_not_its_end() -> None:
    """A second attempt, made where the first is handled, may end well."""
    try:
        raise RuntimeError("the first attempt")
    except RuntimeError:
        klarm.init("a", console=False)
        klarm.finish()
    assert ending() == ("", "")


def test_a_hook_of_the_program_is_called_as_before() -> None:
    """Nothing is put in its place, before or after klarm starts."""
    done = run("sys.excepthook = lambda *_: print('my own hook')\nraise RuntimeError('no')")
    assert done.stdout == "my own hook\n"
    assert done.returncode == 1
    assert ending() == ("crashed", "RuntimeError: no")
    assert "Traceback" not in done.stderr


def test_an_error_that_was_handled_is_none() -> None:
    """The run goes on after it."""
    done = run("try: 1 / 0\nexcept ZeroDivisionError: pass")
    assert done.returncode == 0
    assert ending() == ("", "")


def test_a_worker_process_says_how_it_ended() -> None:
    """Those of multiprocessing end without the hooks of a script."""
    script = Path("script.py")
    script.write_text(
        "import multiprocessing, klarm\n"
        "def train():\n"
        "    klarm.init('a', console=False)\n"
        "    raise RuntimeError('in a worker')\n"
        "if __name__ == '__main__':\n"
        "    worker = multiprocessing.get_context('fork').Process(target=train)\n"
        "    worker.start(); worker.join(); raise SystemExit(worker.exitcode)\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, timeout=60, check=False)
    assert done.returncode == 1
    assert ending() == ("crashed", "RuntimeError: in a worker")


def test_a_training_whose_end_the_framework_did_not_tell_has_stopped() -> None:
    """The script may have handled the error."""
    done = run("monitor.training_began('transformers')")
    assert done.returncode == 0
    assert ending() == ("stopped", "")
    assert "run a stopped after 1 row, before the end of training: no incident" in done.stderr


def test_a_training_that_ended_has_ended_well() -> None:
    """Whatever the script does afterwards."""
    run("monitor.training_began('transformers')\nmonitor.training_ended()")
    assert ending() == ("", "")


def test_errors_typed_into_a_notebook_are_not_the_end_of_a_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only what came through the framework that trains is."""
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    monkeypatch.delattr(sys, "last_exc", raising=False)
    watch = EndWatch()
    monkeypatch.setattr(sys, "last_value", error_from({"__name__": "__main__"}), raising=False)
    assert watch.look().outcome == ""
    watch.training_began("transformers")
    assert watch.look() == Ending("stopped")
    through = error_from({"__name__": "transformers.trainer"}, "KeyboardInterrupt")
    monkeypatch.setattr(sys, "last_value", through, raising=False)
    assert watch.look() == Ending("interrupted", "KeyboardInterrupt")


def error_from(module: dict[str, Any], kind: str = "NameError") -> BaseException:
    try:
        exec(f"raise {kind}", module)
    except (NameError, KeyboardInterrupt) as error:
        return error
    raise AssertionError


def test_a_text_that_cannot_be_read_costs_nothing() -> None:
    """An error may have a text that raises, is endless or commands a terminal."""

    class OddError(Exception):
        def __str__(self) -> str:
            raise ValueError

    monitor = klarm.init("a", console=False)
    with pytest.raises(OddError), monitor:
        raise OddError
    assert ending() == ("crashed", "OddError")
    monitor = klarm.init("b", console=False)
    with pytest.raises(RuntimeError), monitor:
        raise RuntimeError("\x1b[2J" + "x" * 10_000 + "\nsecond line")
    outcome, error = ending("b")
    assert outcome == "crashed"
    assert len(error) < 400
    assert "\x1b" not in error


def test_an_incident_that_is_open_says_how_the_run_ended() -> None:
    """To channels as well."""
    for name, error in (("a", RuntimeError), ("b", KeyboardInterrupt)):
        monitor = klarm.init(name, console=False)
        monitor.log({"kl": float("nan")}, 1)
        with pytest.raises(error), monitor:
            raise error
        of_kl = [line for line in lines_of(name) if line.get("signal") == "kl"]
        assert (of_kl[-1]["event"], of_kl[-1]["reason"]) == (
            "ended",
            {"a": "crashed", "b": "interrupted"}[name],
        )


def test_the_next_run_of_a_process_ends_the_one_before_as_what_it_was() -> None:
    """A notebook cell that is run again after its training was interrupted."""
    monitor = klarm.init("a", console=False)
    monitor.training_began("transformers")
    klarm.init("b", console=False)
    assert ending() == ("stopped", "")
    api.finish()
