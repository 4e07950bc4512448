"""What a trainer hands over may be broken: each value fails alone, and no alarm is lost for it."""

from __future__ import annotations

import math
import os
import sys
import threading
import weakref
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import klarm
from klarm.console import Console
from klarm.detectors import KLExplosionDetector, LossNanDetector
from klarm.journal.file import FileJournal
from klarm.monitor.monitor import Monitor
from klarm.settings import ConfigError
from klarm.types import Alert, Command, Event
from recorded_lines import lines_of

NOT_UTF8 = os.fsdecode(b"/ckpt-\xff")
JOURNAL = Path("klarm_runs/a/journal.jsonl")


def test_a_checkpoint_whose_path_is_not_utf8_costs_no_alarm(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The incident names it, is recorded, shown and passed to listeners."""
    monitor = klarm.init("a")
    received: list[Event] = []
    monitor.on_event.append(received.append)
    monitor.log({"loss": 0.5}, 48)
    monitor.checkpoint(49, NOT_UTF8)
    monitor.log({"loss": math.nan}, 50)
    klarm.finish()
    assert [event.event for event in received] == ["opened", "ended"]
    assert received[0].checkpoint == r"/ckpt-\udcff"
    assert [line["path"] for line in lines_of("a", "checkpoint")] == [r"/ckpt-\udcff"]
    assert [line["event"] for line in lines_of("a", "event")] == ["opened", "ended"]
    shown = capsys.readouterr().err
    assert "INCIDENT 1 on loss opened" in shown
    assert "JSON cannot hold" not in shown


def test_a_console_that_fails_keeps_no_event_from_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nor does a listener that fails."""
    monkeypatch.setattr("klarm.boundary.raise_failures", False)

    class Broken(Console):
        def event(self, event: Event) -> None:
            raise UnicodeEncodeError("utf-8", "\udcff", 0, 1, "surrogates not allowed")

    received: list[str] = []
    journal = FileJournal(Path("klarm_runs/a"), print)
    monitor = Monitor("a", [LossNanDetector()], journal, Broken(enabled=False))
    monitor.on_event.append(lambda _: 1 / 0)
    monitor.on_event.append(lambda event: received.append(event.event))
    monitor.log({"loss": math.nan})
    monitor.finish()
    assert received == ["opened", "ended"]
    assert [line["event"] for line in lines_of("a", "event")] == ["opened", "ended"]


def test_a_detector_that_fails_keeps_no_alert_of_the_others_back(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Somebody's own may raise at every step; that is said once."""
    monkeypatch.setattr("klarm.boundary.raise_failures", False)

    class Failing(KLExplosionDetector):
        def update(self, step: int, metrics: Mapping[str, float]) -> Alert | None:
            raise RuntimeError("mine \x1b[2J")

    detectors = [Failing(), LossNanDetector()]
    monitor = Monitor("a", detectors, console=Console())
    for held in range(100):  # a loss that is held from some row on
        monitor.log({"loss": float(held // 5), "kl": 0.1})
    assert monitor.log({"loss": math.nan, "kl": 0.1})
    monitor.finish()
    shown = capsys.readouterr().err
    assert shown.count(r"RuntimeError: mine \x1b[2J. Training continues") == 1
    assert "INCIDENT 1 on loss opened" in shown


@pytest.mark.parametrize("name", ["KLARM_URL", "KLARM_DIR", "KLARM_FRAMEWORK"])
def test_bytes_that_are_not_utf8_in_the_environment_start_no_trouble(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run is recorded, in the folder that they name."""
    monkeypatch.setitem(os.environ, name, os.fsdecode(b"here-\xff"))
    klarm.init("a", console=False)
    assert klarm.log({"loss": math.nan})
    klarm.finish()
    folder = os.fsdecode(b"here-\xff") if name == "KLARM_DIR" else "klarm_runs"
    head = lines_of(Path(folder) / "a")[0]
    assert head["config"][name.removeprefix("KLARM_").lower()] == r"here-\udcff"


@pytest.mark.parametrize("setting", ["dir", "run"])
def test_a_nul_in_a_folder_is_refused_with_its_setting(setting: str) -> None:
    """Not with an error that names nothing."""
    with pytest.raises(ConfigError, match=setting):
        klarm.init(**{"run": "a", setting: "x\0y"})


class Unspeakable:
    """Whatever is asked of it raises."""

    def __repr__(self) -> str:
        raise RuntimeError("no")

    __str__ = __repr__
    __format__ = __float__ = __int__ = __bool__ = __eq__ = __len__ = __repr__  # type: ignore[assignment]

    def __hash__(self) -> int:
        return 7

    @property
    def __class__(self) -> type:  # type: ignore[override]
        raise RuntimeError("no")

    def item(self) -> float:
        raise RuntimeError("no")


class Referent:
    pass


def dead_proxy() -> object:
    return weakref.proxy(Referent())


class Slippery(Mapping[str, object]):
    """A mapping that fails half-way, but has one good item."""

    def __getitem__(self, key: str) -> object:
        if key == "inner":
            return 1.0
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        yield "inner"
        raise RuntimeError("no more")

    def __len__(self) -> int:
        return 2


def nested(depth: int) -> dict[str, object]:
    level: dict[str, object] = {"bottom": 1.0}
    for _ in range(depth):
        level = {"down": level}
    return level


def itself() -> dict[str, object]:
    loop: dict[str, object] = {"x": 1.0}
    loop["again"] = loop
    return loop


HOSTILE = {
    "dead proxy": dead_proxy,
    "raises": Unspeakable,
    "slippery": Slippery,
    "deep": lambda: nested(10_000),
    "itself": itself,
    "huge": lambda: 10**5000,
    "wide": lambda: {str(i): 1.0 for i in range(15_000)},
    "long text": lambda: "x" * 10**6,
}


@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE)
def test_a_bad_value_costs_only_itself(make: Any) -> None:
    """The NaN beside it is recorded, and critical, wherever the bad one stands."""
    monitor = klarm.init("a", console=False)
    monitor.log({"loss": 0.5, "reward": 0.1}, 0)
    alerts = monitor.log({"bad": make(), "loss": math.nan, "kl": make(), "reward": 0.1}, 1)
    assert {alert.severity for alert in alerts} == {"critical"}
    alerts = monitor.log({"rewards": make(), "loss": math.nan}, 2)
    assert {alert.severity for alert in alerts} == {"critical"}
    klarm.finish()
    metrics = [line["metrics"] for line in lines_of("a", "step")]
    assert metrics[1]["loss"] == metrics[2]["loss"] == "NaN"
    assert metrics[1]["reward"] == 0.1
    assert len(metrics[1]) < 11_000


@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE)
def test_a_bad_step_is_the_one_after_the_previous(
    make: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """And is said, in bounds."""
    monitor = klarm.init("a")
    monitor.log({"loss": 0.5}, 0)
    assert monitor.log({"loss": math.nan}, make())
    klarm.finish()
    assert [line["step"] for line in lines_of("a", "step")] == [0, 1]
    shown = capsys.readouterr().err
    assert "is not a non-negative integer" in shown
    assert len(shown) < 20_000


KEYS = [3, None, (1, 2), b"kl", "x\udcff", "a\0b"]


@pytest.mark.parametrize("number", range(len(KEYS) + 1))
def test_a_bad_key_costs_only_its_value(number: int) -> None:
    """At the top and further down."""
    key = [*KEYS, Unspeakable()][number]
    monitor = klarm.init("a", console=False)
    for step, row in enumerate(({key: 1.0}, {"deeper": {key: 1.0}}, {key: {"deeper": 1.0}})):
        assert monitor.log({**row, "loss": math.nan}, step)  # type: ignore[dict-item]
    klarm.finish()
    assert [line["metrics"]["loss"] for line in lines_of("a", "step")] == ["NaN"] * 3


def test_a_mapping_that_fails_is_read_as_far_as_it_goes() -> None:
    """What came before the failure counts."""

    class Failing(dict[str, object]):
        def items(self) -> Any:
            yield "loss", math.nan
            raise RuntimeError("no more")

    klarm.init("a", console=False)
    assert klarm.log(Failing(loss=1.0), 0)
    klarm.finish()
    assert lines_of("a", "step")[0]["metrics"] == {"loss": "NaN"}


def test_bad_arguments_of_the_other_calls_are_survived() -> None:
    """A checkpoint with a step that is none, a path that cannot be read; rows that are junk."""
    monitor = klarm.init("a", console=False)
    monitor.log({"loss": 0.5}, 0)
    for step in (10**5000, Unspeakable(), None, "x", math.nan):
        monitor.checkpoint(step, "somewhere")  # type: ignore[arg-type]
        monitor.resume(step)  # type: ignore[arg-type]
    for path in (Unspeakable(), b"/ckpt-\xff", None, "x\0y", "x" * 10**6):
        monitor.checkpoint(1, path)  # type: ignore[arg-type]
    assert monitor.log({"loss": math.nan}, 2)
    klarm.finish()
    assert all(len(line["path"]) <= 5000 for line in lines_of("a", "checkpoint"))


@pytest.mark.parametrize("steps", [200, pytest.param(2_000, marks=pytest.mark.slow)])
def test_incidents_can_be_asked_for_while_another_thread_logs(steps: int) -> None:
    """An integration asks after every step, and so may a thread of the user's."""
    monitor = klarm.init("a", console=False)
    over = threading.Event()

    def log() -> None:
        for step in range(steps):  # each NaN opens one, which is closed then
            monitor.log({"loss": math.nan if step % 3 == 0 else 1.0, "kl": 0.1}, step)
            monitor.checkpoint(step, "somewhere")
            for known in monitor.critical:
                monitor.apply(
                    Command(command="close", key=str(step), time=0.0, by="me", incident=known.id)
                )
        over.set()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread = threading.Thread(target=log)
    thread.start()
    try:
        seen = 0
        while not over.is_set():
            seen = max(seen, len(monitor.incidents), len(monitor.critical))
            monitor.last_good_checkpoint(monitor.incidents[0]) if monitor.incidents else None
    finally:
        sys.setswitchinterval(interval)
        thread.join()
    assert seen > 5
