"""What klarm says about itself: audible in any program, and never in its way."""

from __future__ import annotations

import io
import logging
import logging.config
import os
import pickle
import select
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

import klarm
from klarm import boundary
from klarm.boundary import never_raises
from klarm.notices import Notices, ReportsFailures


class Listener(logging.Handler):
    """A handler that a program adds."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[tuple[str, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append((record.levelname, record.getMessage()))


@pytest.fixture(autouse=True)
def logger() -> Iterator[logging.Logger]:
    """Give back the logger as it was, and those of others that a test disabled."""
    logger = logging.getLogger("klarm")
    enabled = [other for other in all_loggers() if not other.disabled]
    before = list(logger.handlers), logger.level, logger.propagate, logger.disabled
    yield logger
    logger.handlers, logger.level, logger.propagate, logger.disabled = before
    logger.filters.clear()
    for other in enabled:
        other.disabled = False


def all_loggers() -> list[logging.Logger]:
    known = logging.getLogger().manager.loggerDict.values()
    return [one for one in known if isinstance(one, logging.Logger)]


@pytest.fixture
def listener(logger: logging.Logger) -> Listener:
    listener = Listener()
    logger.addHandler(listener)
    return listener


def test_news_and_problems_are_lines_on_stderr_and_records(
    listener: Listener, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever reads the terminal sees them, and so does a program's own handler."""
    notices = Notices()
    notices.say("run a starts")
    notices.warn("the disk is full")
    assert capsys.readouterr().err == "klarm: run a starts\nklarm: the disk is full\n"
    assert listener.records == [("INFO", "run a starts"), ("WARNING", "the disk is full")]


def test_a_topic_is_said_once_and_the_rest_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    """The count comes at the end, once; news that come again are not counted."""
    notices = Notices()
    for step in range(13):
        notices.warn_once(f"step {step} is odd", about="odd steps")
        notices.say_once("hello")
    notices.warn_once("alone")
    notices.finish()
    notices.finish()
    assert capsys.readouterr().err.splitlines() == [
        "klarm: step 0 is odd",
        "klarm: hello",
        "klarm: alone",
        "klarm: 12 more times: odd steps",
    ]


def test_a_run_says_at_its_end_how_often_something_went_wrong(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Before its last line, which names the incidents."""
    with klarm.init("a") as monitor:
        for _ in range(3):
            monitor.log([1])  # type: ignore[arg-type]
    *_, repeats, last = capsys.readouterr().err.splitlines()
    assert repeats == "klarm: 2 more times: log takes a dict of metrics, got list"
    assert last.startswith("klarm: run a ended after 0 rows")


def test_with_the_console_off_only_handlers_of_the_program_hear(
    listener: Listener, capsys: pytest.CaptureFixture[str]
) -> None:
    """`console: false` in klarm.yaml; ranks other than 0 say nothing to anybody."""
    with klarm.init("a", console=False):
        pass
    assert capsys.readouterr().err == ""
    assert listener.records[0] == ("INFO", "run a is recorded in klarm_runs/a/journal.jsonl")
    listener.records.clear()
    with klarm.init("b", rank=1):
        pass
    assert (capsys.readouterr().err, listener.records) == ("", [])


def test_logging_that_is_set_up_anew_does_not_silence_klarm(
    capsys: pytest.CaptureFixture[str], logger: logging.Logger
) -> None:
    """`dictConfig` disables loggers it does not know; other programs remove handlers."""
    notices = Notices()
    root = logging.getLogger()
    before = list(root.handlers), root.level
    try:
        logging.config.dictConfig(
            {"version": 1, "disable_existing_loggers": True, "root": {"level": "CRITICAL"}}
        )
        assert logger.disabled
        notices.say("one")
        logging.config.dictConfig({"version": 1, "loggers": {"klarm": {"handlers": []}}})
        notices.say("two")
        logger.handlers.clear()
        notices.say("three")
        logging.disable(logging.CRITICAL)
        notices.say("four")
    finally:
        logging.disable(logging.NOTSET)
        root.handlers, root.level = before
    assert capsys.readouterr().err == "klarm: one\nklarm: two\nklarm: three\nklarm: four\n"


def test_its_own_level_and_filters_do(
    listener: Listener, capsys: pytest.CaptureFixture[str], logger: logging.Logger
) -> None:
    """On stderr and for every handler; a handler's level is its own."""
    notices = Notices()
    logger.setLevel(logging.WARNING)
    notices.say("news")
    notices.warn("problem")
    assert capsys.readouterr().err == "klarm: problem\n"
    listener.setLevel(logging.ERROR)
    notices.warn("another")
    assert listener.records == [("WARNING", "problem")]
    logger.addFilter(lambda record: "secret" not in record.getMessage())
    notices.warn("a secret problem")
    logger.setLevel(logging.CRITICAL)
    notices.warn("third")
    assert capsys.readouterr().err == "klarm: another\n"


def test_the_root_logger_gets_nothing_unless_it_is_asked_to(logger: logging.Logger) -> None:
    """Or every line would come twice in programs that log to stderr."""
    listener, root = Listener(), logging.getLogger()
    root.addHandler(listener)
    try:
        Notices(stderr=False).say("one")
        logger.propagate = True
        Notices(stderr=False).say("two")
    finally:
        root.removeHandler(listener)
    assert listener.records == [("INFO", "two")]


def test_a_handler_that_fails_harms_nobody(
    logger: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is somebody else's code in the middle of a training step."""

    class Broken(logging.Handler):
        def handle(self, record: logging.LogRecord) -> bool:
            raise OSError(record)

    notices = Notices()
    logger.addHandler(Broken())
    notices.say("hello")
    assert capsys.readouterr().err == "klarm: hello\n"


def test_a_handler_with_a_plain_lock_does_not_lock_itself_out(logger: logging.Logger) -> None:
    """Only a reentrant lock can be held around `handle`."""

    class Plain(Listener):
        def createLock(self) -> None:  # noqa: N802
            self.lock = threading.Lock()  # type: ignore[assignment]

    plain = Plain()
    logger.addHandler(plain)
    Notices(stderr=False).say("hello")
    assert plain.records == [("INFO", "hello")]


def test_a_signal_handler_speaks_while_every_lock_of_logging_is_held() -> None:
    """In a process of its own: if it waited for one of them it would wait for ever."""
    code = """
import logging, os, signal, sys, threading
import klarm

monitor = klarm.init("a")
own = logging.StreamHandler(sys.stdout)
logging.getLogger("klarm").addHandler(own)
logging.getLogger("other").setLevel(logging.INFO)  # empties what loggers remember of levels
logging.basicConfig()
held = threading.Event()

def hold():
    handlers = [*logging.getLogger("klarm").handlers, *logging.getLogger().handlers]
    with logging._lock:
        for handler in handlers:
            handler.acquire()
        held.set()
        threading.Event().wait()

threading.Thread(target=hold, daemon=True).start()
held.wait()

def on_signal(*_):
    monitor.log({"kl": float("nan")})
    monitor.log([])
    monitor.say("from the signal handler")

signal.signal(signal.SIGUSR1, on_signal)
os.kill(os.getpid(), signal.SIGUSR1)
sys.stderr.flush()
os._exit(0)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert "klarm: from the signal handler\n" in done.stderr
    assert "log takes a dict of metrics" in done.stderr
    assert done.stdout == ""  # its lock was held: it is skipped


def test_a_pipe_that_nobody_reads_does_not_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be written at once is not written."""
    reader, writer = os.pipe()
    while select.select([], [writer], [], 0)[1]:
        os.write(writer, b"x" * 4096)
    with os.fdopen(writer, "w") as full:
        monkeypatch.setattr(sys, "stderr", full)
        Notices().say("hello")
        monkeypatch.undo()
        os.close(reader)


def test_a_closed_or_missing_stderr_disturbs_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """As under pythonw and some job runners."""
    closed = io.StringIO()
    closed.close()
    for stderr in (closed, None):
        monkeypatch.setattr(sys, "stderr", stderr)
        Notices().say("hello")


def test_a_progress_bar_is_cleared_from_a_terminals_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """It redraws itself; without, the message would continue its line."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    Notices().say("hello")
    assert terminal.getvalue() == "\r\x1b[Kklarm: hello\n"


def test_what_never_raises_reports_each_place_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the error's text, and that training continues."""

    class Part(ReportsFailures):
        def __init__(self) -> None:
            self.notices = Notices()

        @never_raises(lambda: 7)
        def work(self) -> int:
            raise KeyError("kl")

    monkeypatch.setattr(boundary, "raise_failures", False)
    part = Part()
    assert [part.work(), part.work()] == [7, 7]
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("klarm: internal error in work (work, line ")
    assert line.endswith(": KeyError: 'kl'. Training continues; please report this")


def test_notices_can_be_pickled() -> None:
    """Callbacks that hold them are sent to other processes."""
    pickle.loads(pickle.dumps(Notices())).say("hello")


def test_importing_klarm_sets_up_no_logger() -> None:
    """`klarm.init` does."""
    code = "import klarm, sys; print('klarm.notices' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
