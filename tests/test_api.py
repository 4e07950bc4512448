"""init, log, finish: the three calls, and runs that are taken up again."""

from __future__ import annotations

import math
import random
import re
from pathlib import Path

import pytest

import klarm
from klarm import api
from klarm.journal.file import read_journal
from klarm.notices import Notices
from klarm.types import Alert
from recorded_lines import lines_of

pytestmark = pytest.mark.usefixtures("one_detector")


def series(count: int, seed: int = 0) -> list[float]:
    rng = random.Random(seed)
    return [rng.lognormvariate(-4, 0.7) for _ in range(count)]


def test_a_run_without_a_name_gets_one_of_its_own() -> None:
    """Two of them never share a journal."""
    names = {klarm.init(console=False).run for _ in range(3)}
    assert len(names) == 3
    assert all(re.fullmatch(r"\d{8}-\d{6}-[0-9a-f]{4}", name) for name in names)
    assert {folder.name for folder in Path("klarm_runs").iterdir()} == names


@pytest.mark.parametrize("how", ["environment", "argument"])
def test_a_rank_other_than_0_decides_in_silence(
    how: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It records and notifies nothing, but has the same alerts and incidents."""
    if how == "environment":
        monkeypatch.setenv("RANK", "3")
    monitor = klarm.init("a") if how == "environment" else klarm.init("a", rank=3)
    (alert,) = klarm.log({"kl": math.nan})
    klarm.finish()
    assert alert.severity == "critical"
    assert [incident.signal for incident in monitor.critical] == ["kl"]
    assert not Path("klarm_runs").exists()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("rank", ["0", "", "first"])
def test_rank_0_records(rank: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And so does a process whose RANK says nothing."""
    monkeypatch.setenv("RANK", rank)
    klarm.init("a", console=False)
    klarm.log({"kl": 0.1})
    assert len(lines_of("a", "step")) == 1


def test_the_environment_names_run_and_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    """For launchers that cannot touch the script."""
    monkeypatch.setenv("KLARM_RUN", "from-environment")
    monkeypatch.setenv("KLARM_DIR", "elsewhere")
    klarm.init()
    assert Path("elsewhere/from-environment/journal.jsonl").exists()


def test_the_header_holds_the_settings_of_the_run() -> None:
    """So that it can be replayed as it was watched."""
    klarm.init("a", kl_explosion={"sigma_multiplier": 5})
    (header,) = lines_of("a", "run")
    assert header["klarm"] == klarm.__version__
    assert header["config"]["kl_explosion"]["sigma_multiplier"] == 5.0  # type: ignore[index]


def test_log_before_init_is_said_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And does no harm."""
    monkeypatch.setattr(api, "_before_init", Notices())
    assert klarm.log({"kl": math.nan}) == []
    assert klarm.log({"kl": math.nan}) == []
    klarm.finish()
    assert (
        capsys.readouterr().err == "klarm: log was called before klarm.init: nothing is watched\n"
    )


def test_a_second_init_ends_the_first_run() -> None:
    """As in a notebook whose cell is run again."""
    first = klarm.init("first")
    klarm.init("second")
    klarm.log({"kl": 0.1})
    assert lines_of("first", "finish")
    assert len(lines_of("second", "step")) == 1
    assert first.log({"kl": 0.1}) == []


def test_a_wrong_configuration_stops_before_anything_is_written() -> None:
    """And leaves the run there is alone."""
    running = klarm.init("running")
    with pytest.raises(klarm.ConfigError, match="did you mean sigma_multiplier"):
        klarm.init("next", kl_explosion={"sigma": 5})
    with pytest.raises(klarm.ConfigError, match="try 'my-run'"):
        klarm.init("my/run")
    assert [folder.name for folder in Path("klarm_runs").iterdir()] == ["running"]
    assert api._current is running


@pytest.mark.parametrize("resumed_at", [150, 120, 1, 151, 400])
def test_a_resumed_run_goes_on_as_if_nothing_had_been_between(resumed_at: int) -> None:
    """Detectors are rebuilt up to the first resumed step; what was after it is rolled back."""
    before, after = series(150, 1), series(200, 2)
    klarm.init("a", console=False)
    for step, value in enumerate(before, start=1):
        klarm.log({"kl": value}, step)
    klarm.finish()
    klarm.init("a", console=False)
    resumed = [klarm.log({"kl": value}, resumed_at + i) for i, value in enumerate(after)]

    klarm.init("straight", console=False)
    for step, value in enumerate(before[: resumed_at - 1], start=1):
        klarm.log({"kl": value}, step)
    straight = [klarm.log({"kl": value}, resumed_at + i) for i, value in enumerate(after)]
    assert resumed == straight
    assert any(straight) or resumed_at == 1
    assert [record["step"] for record in lines_of("a", "resume")] == [resumed_at]
    assert len(lines_of("a", "run")) == 2


def test_a_resumed_run_without_steps_counts_on() -> None:
    """The previous plus one, across the restart."""
    klarm.init("a")
    for _ in range(5):
        klarm.log({"kl": 0.1})
    klarm.init("a")
    klarm.log({"kl": 0.1})
    assert [record["step"] for record in lines_of("a", "step")] == [0, 1, 2, 3, 4, 5]


def test_a_run_can_be_resumed_many_times() -> None:
    """Each time from an earlier checkpoint."""
    values = series(400, 3)
    alerts: list[Alert] = []
    at = 0
    for stop, back_to in ((100, 80), (180, 150), (300, 290), (400, None)):
        klarm.init("a", console=False)
        for step in range(at, stop):
            alerts += klarm.log({"kl": values[step]}, step)
        klarm.finish()
        at = back_to or 0
    klarm.init("straight", console=False)
    returned = [
        alert for step, value in enumerate(values) for alert in klarm.log({"kl": value}, step)
    ]
    assert {(a.step, a.message) for a in alerts} == {(a.step, a.message) for a in returned}


def test_settings_are_recorded_whenever_a_run_is_taken_up() -> None:
    """They may have changed."""
    klarm.init("a", console=False)
    for value in series(60):
        klarm.log({"kl": value})
    klarm.init("a", console=False, kl_explosion={"baseline_mode": "frozen", "rolling_window": 50})
    klarm.log({"kl": 0.1})
    modes = [start["config"]["kl_explosion"]["baseline_mode"] for start in lines_of("a", "run")]
    assert modes == ["rolling", "frozen"]


def test_a_journal_that_is_all_garbage_starts_the_run_anew() -> None:
    """What was there stays; what comes is readable."""
    folder = Path("klarm_runs/a")
    folder.mkdir(parents=True)
    (folder / "journal.jsonl").write_bytes(b"\x00\xff garbage\nmore {garbage")
    klarm.init("a")
    klarm.log({"kl": 0.5}, 3)
    klarm.finish()
    kept = (folder / "journal.jsonl").read_bytes()
    assert kept.startswith(b"\x00\xff garbage\nmore {garbage\n")
    readable = [type(record).__name__ for record in read_journal(folder / "journal.jsonl")]
    assert readable == ["Started", "Step", "Finish"]


def test_the_framework_is_recorded_and_its_signs_are_turned_once() -> None:
    """SB3 logs minus the entropy: the journal holds the entropy, and a replay leaves it so."""
    from klarm.analysis.replay import replay
    from klarm.config.layers import load
    from klarm.sources import read_log

    klarm.init("a", console=False, framework="sb3", entropy_collapse={"enabled": True})
    values = [0.6] * 100 + [0.01] * 60
    live = [a for v in values for a in klarm.log({"train/entropy_loss": -v, "train/approx_kl": v})]
    klarm.finish()
    assert lines_of("a", "run")[0]["framework"] == "sb3"
    keys = {"entropy": "train/entropy_loss", "kl_old": "train/approx_kl"}
    assert lines_of("a", "binding")[0]["keys"] == keys
    assert lines_of("a", "step")[0]["metrics"] == {"entropy": 0.6, "kl_old": 0.6}
    assert any(alert.detector == "entropy_collapse" for alert in live)
    found = replay(read_log(Path("klarm_runs/a"), print), lambda recorded: load(recorded=recorded))
    assert found.alerts == live


def test_a_resumed_run_says_its_kinds_once_and_again_when_they_change() -> None:
    """A journal's last word on a key is what a replay goes by."""

    def bindings(framework: str, step: int) -> list[object]:
        klarm.init("a", console=False, framework=framework)
        klarm.log({"kl": 0.1}, step)
        klarm.finish()
        return [record["kinds"] for record in lines_of("a", "binding")]

    k3 = {"kl": {"target": "reference", "estimator": "k3"}}
    k1 = {"kl": {"target": "reference", "estimator": "k1"}}
    assert bindings("trl", 1) == [k3]
    assert bindings("trl", 2) == [k3]
    assert bindings("trl/RLOO", 3) == [k3, k1]
    assert bindings("", 4) == [k3, k1, {}]
    assert bindings("", 5) == [k3, k1, {}]


def test_a_run_that_is_delivered_elsewhere_needs_no_secret_here() -> None:
    """The training node has neither the network nor the keys; channels are checked all the same."""
    hook = {"type": "webhook", "url": {"env": "NOT_HERE"}}
    with pytest.raises(klarm.ConfigError, match="NOT_HERE"):
        klarm.init("a", console=False, channels={"hook": hook})
    klarm.init("a", console=False, deliver="elsewhere", channels={"hook": hook})
    with pytest.raises(klarm.ConfigError, match="did you mean url"):
        klarm.init("a", deliver="elsewhere", channels={"hook": {"type": "webhook", "ulr": "x"}})
