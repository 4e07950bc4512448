"""Trackio: a real local run, what klarm sees of it and what it sees of klarm."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trackio
from trackio import context_vars

import klarm.integrations.trackio
from klarm.integrations.trackio import watch
from recorded_lines import lines_of


@pytest.fixture(autouse=True)
def local(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have every run stay in this folder, and end it afterwards."""
    monkeypatch.setattr("trackio.sqlite_storage.TRACKIO_DIR", Path.cwd() / "trackio")
    yield
    if context_vars.current_run.get() is not None:
        trackio.finish()


def start(name: str = "run") -> Any:
    return trackio.init(project="p", name=name, embed=False)


def rows(run: str = "a") -> list[tuple[int, dict[str, float]]]:
    return [(step["step"], step["metrics"]) for step in lines_of(run, "step")]


def recorded(query: str) -> list[Any]:
    """Return what Trackio wrote, once the run is over."""
    trackio.finish()
    (file,) = Path("trackio").glob("p*.db")
    with closing(sqlite3.connect(file)) as database:
        return database.execute(query).fetchall()


@pytest.mark.parametrize("early", [True, False], ids=["before init", "after init"])
def test_what_is_logged_to_trackio_is_watched_under_klarms_names(early: bool) -> None:
    """Through trackio.log and run.log alike, whenever watch is called."""
    if early:
        watch("a")
    run = start()
    if not early:
        watch("a")
    trackio.log({"train/kl": 0.1, "actor/pg_loss": 1.5})
    run.log({"train/kl": 0.2})
    assert rows() == [(0, {"kl": 0.1, "loss": 1.5}), (1, {"kl": 0.2})]


def test_steps_are_trackios() -> None:
    """Given or counted on; two dicts for a step are one step."""
    start()
    for _ in range(5):
        trackio.log({"kl": 0.1})
    watch("a")
    trackio.log({"kl": 0.2})
    trackio.log({"kl": 0.3}, step=10)
    trackio.log({"reward": 1.0}, step=10)
    trackio.log({"kl": 0.4})
    assert rows() == [
        (5, {"kl": 0.2}),
        (10, {"kl": 0.3}),
        (10, {"reward": 1.0}),
        (11, {"kl": 0.4}),
    ]
    query = "select step from metrics order by id"
    assert [step for (step,) in recorded(query)] == [0, 1, 2, 3, 4, 5, 10, 10, 11]


def test_what_is_no_number_is_passed_over() -> None:
    """Histograms, tables and text are Trackio's; dicts in dicts are numbers after all."""
    watch("a")
    start()
    given = {
        "kl": np.float32(0.5),
        "histogram": trackio.Histogram([1, 2, 3]),
        "text": "hello",
        "nested": {"a": 1},
    }
    before = dict(given)
    assert trackio.log(given) is None
    assert given == before
    assert rows() == [(0, {"kl": 0.5, "nested/a": 1.0})]


def test_an_incident_is_an_alert_in_trackio() -> None:
    """At its step, with what to do; its end is no alert."""
    watch("a", alert=True)
    start()
    trackio.log({"kl": math.nan}, step=7)
    for step in range(8, 40):
        trackio.log({"kl": 0.1}, step=step)
    (opened, resolved) = lines_of("a", "event")
    assert (opened["event"], resolved["event"]) == ("opened", "resolved")
    ((title, text, level, step),) = recorded("select title, text, level, step from alerts")
    assert title == "klarm: critical on kl (opened, incident 1)"
    assert opened["remedy"] in text
    assert (level, step) == ("error", 7)


def test_another_run_is_not_mixed_in(capsys: pytest.CaptureFixture[str]) -> None:
    """It is said once; watch again watches it."""
    watch("a")
    start("one")
    trackio.log({"kl": 0.1})
    trackio.finish()
    start("two")
    trackio.log({"kl": 0.2})
    trackio.log({"kl": 0.3})
    assert rows() == [(0, {"kl": 0.1})]
    assert capsys.readouterr().err.count("is not watched") == 1
    watch("b")
    trackio.log({"kl": 0.4})
    assert rows("b") == [(2, {"kl": 0.4})]


@pytest.mark.usefixtures("broken_detector")
def test_a_failure_of_ours_leaves_trackio_alone(capsys: pytest.CaptureFixture[str]) -> None:
    """A detector that breaks is said once, and Trackio has every step."""
    watch("a", alert=True)
    start()
    for _ in range(3):
        trackio.log({"kl": 0.1})
    assert capsys.readouterr().err.count("broken detector") == 1
    assert recorded("select count(*) from metrics") == [(3,)]


def test_our_file_is_not_taken_for_the_package() -> None:
    """Both are called trackio."""
    assert klarm.integrations.trackio.__file__ != trackio.__file__
    assert hasattr(trackio, "init")


def test_another_run_of_the_same_name_is_not_mixed_in(capsys: pytest.CaptureFixture[str]) -> None:
    """Trackio tells runs apart by their id, not by the name that people give them."""
    watch("a")
    start("one")
    trackio.log({"kl": 0.1})
    trackio.finish()
    start("one")
    trackio.log({"kl": 0.2})
    assert rows() == [(0, {"kl": 0.1})]
    assert capsys.readouterr().err.count("is not watched") == 1


def test_a_run_that_is_resumed_is_still_watched() -> None:
    """It is the same run to Trackio, which counts on."""
    watch("a")
    start("one")
    trackio.log({"kl": 0.1})
    trackio.finish()
    trackio.init(project="p", name="one", embed=False, resume="must")
    trackio.log({"kl": 0.2})
    assert rows() == [(0, {"kl": 0.1}), (1, {"kl": 0.2})]


def test_the_trainers_own_step_goes_before_trackios_count() -> None:
    """Rows that have neither belong to the last step there was."""
    watch("a")
    start()
    trackio.log({"kl": 0.1, "train/global_step": 10})
    trackio.log({"eval/score": 1.0, "train/global_step": 10})
    trackio.log({"seconds": 2.0}, step=10)
    trackio.log({"predict/score": 1.0})
    trackio.log({"kl": 0.2, "train/global_step": 20})
    assert [step for step, _ in rows()] == [10, 10, 10, 10, 20]
