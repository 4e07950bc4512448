"""The monitor and its pipeline.py: what goes in, what comes out, and that nothing raises."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import klarm
from klarm import boundary
from klarm.console import Console
from klarm.detectors import KLExplosionDetector
from klarm.journal.file import MemoryJournal
from klarm.journal.records import Step
from klarm.monitor.monitor import Monitor
from klarm.types import Alert, Event
from recorded_lines import lines_of

pytestmark = pytest.mark.usefixtures("one_detector")

SIGMA = [0.4, 0.6] * 50  # mean 0.5, standard deviation 0.1


def monitor(journal: MemoryJournal | None = None) -> Monitor:
    return Monitor("test", [KLExplosionDetector()], journal)


def test_an_alert_is_returned_recorded_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """The whole way, once."""
    watched = klarm.init("a", console_alerts=True)
    for step, value in enumerate(SIGMA):
        assert klarm.log({"train/kl": value}, step=step) == []
    (alert,) = klarm.log({"train/kl": 2.0}, step=100)
    klarm.finish()
    assert alert.severity == "critical"
    assert watched.alert_counts == {"warning": 0, "critical": 1}
    header, *_, step, recorded, finish = lines_of("a")
    assert header["type"] == "run"
    assert header["run"] == "a"
    assert step["metrics"] == {"kl": 2.0}
    assert recorded["type"] == "alert"
    assert recorded["message"] == alert.message
    assert (finish["type"], finish["steps"]) == ("finish", 101)
    shown = capsys.readouterr().err
    assert "klarm: run a is recorded in klarm_runs/a/journal.jsonl" in shown
    assert "klarm: watching\n  kl ← train/kl: kl_explosion\n" in shown
    assert "klarm CRITICAL at step 100, kl_explosion: KL 2 is 15σ above" in shown
    assert "klarm: run a ended after 101 rows: no incident\n" in shown


@pytest.mark.parametrize("earlier_steps", [0, 3])
def test_a_process_that_logs_nothing_does_not_say_no_incident(
    earlier_steps: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """A script whose calls of `log` are never reached would look healthy."""
    with klarm.init("a"):
        for _ in range(earlier_steps):
            klarm.log({"kl": 0.1})
    capsys.readouterr()
    with klarm.init("a"):
        pass
    *_, last = capsys.readouterr().err.splitlines()
    process = " in this process" if earlier_steps else ""
    assert last == f"klarm: run a ended after 0 rows{process}: nothing was watched"


def test_whatever_trainers_log_is_taken_or_left_but_never_raises() -> None:
    """What is a number is kept by its canonical name."""
    klarm.init("a")
    assert (
        klarm.log(
            {
                "kl": np.float32(0.5),
                "reward": "0.25",
                "loss": np.array(1.5),
                "entropy": None,
                "grad_norm": float("nan"),
                "text": "hello",
                "samples": [1, 2, 3],
                "nested": {"a": 1, "b": {"c": object()}},
                3: 4.0,
            },
            step=np.int64(7),
        )
        == []
    )
    for junk in (None, 3, "kl", [("kl", 1.0)], object()):
        assert klarm.log(junk) == []  # type: ignore[arg-type]
    klarm.finish()
    (line,) = lines_of("a", "step")
    assert line["step"] == 7
    assert line["metrics"] == {
        "kl": 0.5,
        "reward": 0.25,
        "loss": 1.5,
        "grad_norm": "NaN",
        "nested/a": 1.0,
    }


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(st.tuples(st.dictionaries(st.text(), json_like, max_size=5), json_like)))
def test_any_junk_in_any_order_is_survived(calls: list[tuple[dict[str, object], object]]) -> None:
    """With the guard taken away: nothing is left for it to catch."""
    watched = monitor(MemoryJournal())
    for metrics, step in calls:
        watched.log(metrics, step)


def test_a_step_not_given_is_the_previous_plus_one() -> None:
    """In the journal and in the alert."""
    klarm.init("a")
    klarm.log({"kl": 0.1})
    klarm.log({"kl": 0.1}, step=41)
    (alert,) = klarm.log({"kl": math.inf})
    klarm.finish()
    assert [line["step"] for line in lines_of("a", "step")] == [0, 41, 42]
    assert alert.step == 42


def test_several_dicts_for_one_step_are_one_step() -> None:
    """The first value of a metric counts; a detector sees the step once."""
    one, many = monitor(), monitor()
    for step, value in enumerate([*SIGMA, 5.0]):
        expected = one.log({"kl": value, "reward": 1.0}, step)
        alerts = many.log({"reward": 1.0}, step)
        alerts += many.log({"kl": value}, step)
        alerts += many.log({"kl": 99.0, "train_runtime": 3.0}, step)
        assert alerts == expected


def test_two_monitors_in_one_process_do_not_meet() -> None:
    """Each keeps its own baseline, journal and steps."""
    first = klarm.init("first", console=False)
    second = Monitor("second", [KLExplosionDetector()], MemoryJournal())
    for value in SIGMA:
        first.log({"kl": value})
        second.log({"kl": value * 1000})
    assert first.log({"kl": 5.0})
    assert second.log({"kl": 5.0}) == []
    assert len(lines_of("first", "step")) == 101


def test_a_run_in_which_nothing_is_watched_does_not_look_healthy(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It is said once as it shows, with what is logged, and again at the end."""
    with klarm.init("a", metrics={"kl": "my/lk"}) as watched:
        for step in range(30):
            watched.log({"my/kl": 0.1, "learning_rate": 1e-6, "tokens": step}, step)
    nothing = "no detector knows any of the metrics that are logged: learning_rate, my/kl, tokens"
    _, warning, hint, end = capsys.readouterr().err.splitlines()
    said = f"klarm: WARNING: nothing is watched: {nothing} (docs/metrics.md"
    assert warning.startswith(said)
    assert hint.endswith("metrics.kl names my/lk, which is not logged; did you mean my/kl?")
    assert end == f"klarm: run a ended after 30 rows: NOTHING WAS WATCHED: {nothing}"


def test_a_checkpoint_is_recorded() -> None:
    """So that an alert can name a place to go back to."""
    watched = klarm.init("a")
    watched.log({"kl": 0.1}, 100)
    watched.checkpoint(100, Path("out") / "checkpoint-100")
    klarm.finish()
    (line,) = lines_of("a", "checkpoint")
    assert (line["step"], line["path"]) == (100, "out/checkpoint-100")


def test_a_detector_that_is_off_says_nothing() -> None:
    """Not even of a NaN."""
    klarm.init("a", kl_explosion={"enabled": False})
    assert klarm.log({"kl": math.nan}) == []


def test_log_after_finish_is_said_once_and_recorded_never(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A callback that fires late is no reason to crash."""
    watched = klarm.init("a")
    watched.log({"kl": 0.1})
    watched.finish()
    for _ in range(3):
        assert watched.log({"kl": math.nan}) == []
    watched.finish()
    assert len(lines_of("a", "step")) == 1
    assert capsys.readouterr().err.count("log was called after finish") == 1


def test_as_a_context_it_finishes_by_itself() -> None:
    """Also when the training fails."""
    with pytest.raises(ZeroDivisionError), klarm.init("a") as watched:
        watched.log({"kl": 1 / 0})
    assert lines_of("a")[-1]["type"] == "finish"


class Broken(KLExplosionDetector):
    """A detector that fails in a way nobody foresaw."""

    def update(self, step: int, metrics: Mapping[str, float]) -> Alert | None:
        raise AssertionError("broken")


def test_a_failure_inside_is_said_once_and_training_goes_on(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The guard at work, as users have it."""
    monkeypatch.setattr(boundary, "raise_failures", False)
    watched = Monitor("a", [Broken(), KLExplosionDetector()], console=Console())
    for _ in range(3):
        assert watched.log({"kl": 0.1}) == []
    assert watched.log({"kl": math.nan}) != []
    said = capsys.readouterr().err
    assert said.count("internal error in detector kl_explosion (update") == 1
    assert "AssertionError: broken. Training continues" in said


class Wordless(Exception):  # noqa: N818
    """An exception that cannot even be printed."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


class Unreadable(Mapping[str, object]):
    """A mapping that fails with it."""

    def __getitem__(self, key: str) -> object:
        raise Wordless

    def __iter__(self) -> Iterator[str]:
        raise Wordless

    def __len__(self) -> int:
        return 1


def test_a_failure_that_cannot_be_reported_does_not_raise_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nor does a stderr that fails in a way of its own."""

    class Stderr:
        def write(self, text: str) -> int:
            raise RuntimeError("broken stderr")

    monkeypatch.setattr(boundary, "raise_failures", False)
    watched = klarm.init("a")
    monkeypatch.setattr("sys.stderr", Stderr())
    assert watched.log(Unreadable()) == []
    assert watched.log({"kl": math.nan}) != []
    klarm.finish()


class Rude:
    """A value that fails in a way of its own when it is made a number."""

    def __init__(self, error: type[BaseException]) -> None:
        self.error = error

    def __float__(self) -> float:
        raise self.error


@pytest.mark.parametrize("error", [OverflowError, AssertionError, Wordless, StopIteration])
def test_one_bad_value_does_not_cost_the_others(error: type[Exception]) -> None:
    """The NaN beside it is seen."""
    (alert,) = monitor().log({"rude": Rude(error), "kl": math.nan})
    assert alert.severity == "critical"


def test_a_nan_is_seen_even_when_its_step_was_logged_before() -> None:
    """Critical at once means at once."""
    watched = monitor()
    watched.log({"kl": 0.1}, 5)
    (alert,) = watched.log({"kl": math.nan}, 5)
    assert alert.step == 5


def test_steps_that_are_no_whole_numbers_count_on() -> None:
    """Somebody passes the epoch: a thousand steps must not become one."""
    watched = monitor(MemoryJournal())
    for i, value in enumerate(SIGMA):
        watched.log({"kl": value}, 6 + (i + 1) / 1000)
    assert watched.log({"kl": 5.0}, 6.5)


def test_a_late_key_with_a_prefix_does_not_take_over_in_a_replay() -> None:
    """It is recorded under a name that no replay takes for the metric."""
    klarm.init("a", console=False)
    for step in range(60):
        late = {"train/kl": 9.0} if step >= 50 else {}
        klarm.log({"objective/kl": 0.1, **late}, step)
    klarm.finish()
    assert lines_of("a", "step")[-1]["metrics"] == {"kl": 0.1, "other/train/kl": 9.0}


def test_keys_that_never_come_again_do_not_fill_the_memory() -> None:
    """One new key per step, for 30,000 steps."""
    watched = monitor()
    for step in range(30_000):
        watched.log({"kl": 0.1, f"sample/{step}": 1.0}, step)
    assert len(watched.binding.names()) < 12_000
    assert watched.binding.keys == {"kl": "kl"}


def test_in_tests_the_guard_raises() -> None:
    """Or a swallowed bug would pass the suite."""
    with pytest.raises(AssertionError, match="broken"):
        Monitor("a", [Broken()]).log({"kl": 0.1})


def test_an_alert_is_plain_data() -> None:
    """Frozen, comparable, and good to print."""
    (alert,) = monitor().log({"kl": math.nan}, 3)
    assert isinstance(alert, Alert)
    assert (alert.detector, alert.severity, alert.step) == ("kl_explosion", "critical", 3)
    with pytest.raises(AttributeError):
        alert.step = 4  # type: ignore[misc]


def test_what_is_critical_now_can_be_asked_for() -> None:
    """An integration acts on incidents that are open and critical, not on warnings or the past."""
    watched = monitor()
    for step, value in enumerate([*SIGMA, 0.85]):
        watched.log({"kl": value}, step)
    assert watched.critical == []
    watched.log({"kl": math.nan}, 101)
    assert [incident.signal for incident in watched.critical] == ["kl"]
    for step in range(102, 130):
        watched.log({"kl": 0.5}, step)
    assert watched.critical == []


def test_listeners_are_called_with_events_that_the_journal_has() -> None:
    """Whoever passes an event on passes on something that is on record, opening and end alike."""
    journal = MemoryJournal()
    watched = monitor(journal)
    received: list[tuple[str, bool]] = []

    def look(event: Event) -> None:
        on_record = [(r.event, r.message) for r in journal.records if isinstance(r, Event)]
        received.append((event.event, on_record[-1:] == [(event.event, event.message)]))

    watched.on_event.append(look)
    for step, value in enumerate([*SIGMA, math.nan, *SIGMA]):
        watched.log({"kl": value}, step)
    assert received == [("opened", True), ("resolved", True)]


def test_a_detector_that_raises_does_not_cost_the_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was logged is on record, whatever klarm makes of it."""
    monkeypatch.setattr(boundary, "raise_failures", False)
    journal, broken = MemoryJournal(), KLExplosionDetector()
    watched = Monitor("a", [broken], journal)
    monkeypatch.setattr(broken, "update", lambda step, metrics: 1 / 0)
    watched.log({"kl": 0.5}, 7)
    assert [record.step for record in journal.records if isinstance(record, Step)] == [7]


def test_people_are_notified_of_what_cannot_be_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever keeps the journal from taking a step."""
    monkeypatch.setattr(boundary, "raise_failures", False)
    journal = MemoryJournal()
    watched, received = monitor(journal), []
    watched.on_event.append(received.append)
    monkeypatch.setattr(journal, "step", lambda *_: 1 / 0)
    monkeypatch.setattr(journal, "record", lambda *_: 1 / 0)
    (alert,) = [a for s, kl in enumerate([*SIGMA, math.nan]) for a in watched.log({"kl": kl}, s)]
    assert alert.severity == "critical"
    watched.finish()
    assert [event.event for event in received] == ["opened", "ended"]


def test_a_listener_that_raises_stops_neither_another_nor_the_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each is guarded on its own, and the failure is said once."""
    monkeypatch.setattr(boundary, "raise_failures", False)
    watched = klarm.init("a")
    received: list[Event] = []

    def broken(event: Event) -> None:
        raise OSError("nobody there")

    watched.on_event += [broken, received.append, broken]
    for step, value in enumerate([*SIGMA, math.nan, *SIGMA]):
        watched.log({"kl": value}, step)
    assert [event.event for event in received] == ["opened", "resolved"]
    assert watched.alert_counts["critical"] == 1
    assert capsys.readouterr().err.count("nobody there") == 1
