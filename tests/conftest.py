"""What every test stands on: a folder of its own, no settings, no swallowed failure."""

from __future__ import annotations

import os
import random
import signal
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from loopback import Server

import klarm
from example_events import DIAGNOSED, WATCHED_RUN
from klarm import api, boundary
from klarm.channels import installed_channels
from klarm.channels.message import Context, Message, message_of
from klarm.detectors import CATALOGUE, installed_detectors
from klarm.plugins import plugins
from klarm.types import Event
from progress import Progress

# The same examples every time: bad luck must stop nobody. `make search` looks for new ones.
settings.register_profile(
    "klarm", deadline=None, max_examples=50, derandomize=True, database=None, print_blob=False
)
settings.register_profile("search", deadline=None, max_examples=2_000, print_blob=True)
settings.load_profile("klarm")
# What a shell starts in the background is deaf to Ctrl-C, and so would be what tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that the Makefile uses."""
    parser.addoption("--closing-line", default="", help="say this when all tests are done")
    parser.addoption("--shuffle", type=int, metavar="SEED", help="run the tests in random order")


def pytest_configure(config: pytest.Config) -> None:
    """Show progress where the results come together."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Progress())


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return more workers than there are cores: many tests wait for a server or a process."""
    return 2 * (os.cpu_count() or 1)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Shuffle the tests if that is asked for: none may depend on another one."""
    seed = config.getoption("shuffle")
    if seed is not None:
        random.Random(seed).shuffle(items)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the example that broke a property as a line to paste above its test."""
    report = yield
    property_test = getattr(getattr(item, "obj", None), "hypothesis", None)
    if property_test is not None and call.excinfo is not None:
        code = property_test.inner_test.__code__
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        for entry in call.excinfo.traceback:
            if entry.frame.code.raw is code:
                given = ", ".join(f"{name}={entry.frame.f_locals[name]!r}" for name in names)
                report.sections.append(("paste this above the test", f"@example({given})"))
    return report


@pytest.fixture(autouse=True)
def clean_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Work in an empty folder, without KLARM_ variables, and end the monitor afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path.with_name(f"{tmp_path.name}-cache")))
    for variable in [name for name in os.environ if name.startswith("KLARM_")]:
        monkeypatch.delenv(variable)
    yield
    klarm.finish()
    api._replace_current(None)


@pytest.fixture
def one_detector(clean_place: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave only kl_explosion on, for tests of what happens around a detector."""
    for kind in CATALOGUE:
        if kind.name != "kl_explosion":
            monkeypatch.setenv(f"KLARM_{kind.name.upper()}__ENABLED", "false")


@pytest.fixture
def site(clean_place: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have packages that a test puts into the folder `site` be found, and forgotten later."""
    monkeypatch.syspath_prepend(str(Path("site").absolute()))
    plugins.cache_clear()
    installed_detectors.cache_clear()
    installed_channels.cache_clear()
    yield
    sys.modules.pop("late_package", None)
    plugins.cache_clear()
    installed_detectors.cache_clear()
    installed_channels.cache_clear()


@pytest.fixture(autouse=True)
def failures_raise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the guard raise what it would keep from a training run."""
    monkeypatch.setattr(boundary, "raise_failures", True)


@pytest.fixture
def event() -> Event:
    return DIAGNOSED


@pytest.fixture
def context() -> Context:
    return WATCHED_RUN


@pytest.fixture
def message() -> Message:
    """That a critical incident on KL has opened."""
    return message_of(DIAGNOSED, WATCHED_RUN)


@pytest.fixture
def server() -> Iterator[Server]:
    """A service on this machine that takes messages."""
    server = Server()
    yield server
    server.close()
