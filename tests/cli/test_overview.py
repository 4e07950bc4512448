"""`klarm runs`: every run with its state, its KL and its open incidents, the worst first."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import klarm
from klarm.cli.group import klarm as command
from klarm.runs import read_run


def record(name: str, values: list[float], *, finish: bool = True) -> None:
    klarm.init(name, console=False)
    for step, value in enumerate(values):
        klarm.log({"kl": value}, step)
    if finish:
        klarm.finish()


def runs(*arguments: str, columns: int = 80) -> Result:
    done = CliRunner().invoke(command, ["runs", *arguments], env={"COLUMNS": str(columns)})
    assert done.exit_code == 0, done.output
    return done


def test_the_worst_run_comes_first_with_its_kl_and_open_incidents() -> None:
    """Healthy runs follow, the latest first."""
    record("early", [0.5] * 20)
    record("broken", [*[0.1, 0.2] * 20, math.nan])
    record("late", [*[0.1] * 20, 0.25], finish=False)
    heading, *rows = runs().stdout.splitlines()
    assert heading.split() == ["run", "state", "rows", "last", "seen", "KL", "unresolved"]
    assert [row.split()[0] for row in rows] == ["broken", "late", "early"]
    assert rows[0].split()[1:3] == ["finished", "41"]
    assert "NaN" in rows[0]
    assert re.search(r" (just now|\d+ \w+ ago) ", rows[0])
    assert rows[0].rstrip().endswith("critical: kl")
    assert rows[1].split()[1:3] == ["training", "21"]
    assert "0.25 ▁▁▁▁▁▁▁▁▁█" in rows[1]


def test_of_equally_bad_runs_the_one_with_more_open_incidents_comes_first() -> None:
    """Whichever was seen last; but something can still be done about one that is training."""
    for name, metrics in (("two", ("kl", "loss")), ("one", ("kl",))):
        klarm.init(name, console=False)
        for step in range(41):
            klarm.log(dict.fromkeys(metrics, 0.1 + 0.1 * (step % 2) if step < 40 else math.nan))
        klarm.finish()
    assert [row.split()[0] for row in runs().stdout.splitlines()[1:]] == ["two", "one"]
    record("live", [*[0.1, 0.2] * 20, math.nan], finish=False)
    assert [row.split()[0] for row in runs().stdout.splitlines()[1:]] == ["live", "two", "one"]


@pytest.mark.parametrize("columns", [80, 120])
def test_no_line_is_wider_than_the_terminal(columns: int) -> None:
    """No number or word is cut off, even with a long name and a large journal."""
    record("a-name-that-is-longer-than-any-column-would-have-it-" + "x" * 40, [0.1234, 1e-7] * 30)
    record("b", [*[0.1] * 40, math.inf])
    lines = runs(columns=columns).stdout.splitlines()
    assert max(map(len, lines)) <= columns
    assert "…" not in "".join(lines)
    assert any("finished" in line and "60" in line for line in lines)


def test_steps_that_were_rolled_back_are_not_drawn() -> None:
    """The curve has only the steps that count."""
    klarm.init("a", console=False)
    for step in range(20):
        klarm.log({"kl": 0.1 if step < 10 else 500.0}, step)
    for step in range(10, 15):
        klarm.log({"kl": 0.1}, step)
    klarm.finish()
    points = read_run(Path("klarm_runs/a")).curves["kl"].points
    assert points == [(step, 0.1) for step in range(15)]


def test_an_unreadable_run_is_listed_and_hides_no_other() -> None:
    """Examples are an unreadable journal, an empty one, and a folder in its place."""
    record("good", [0.1] * 5)
    for name, content in (("garbage", b"nonsense\n"), ("empty", b"")):
        folder = Path("klarm_runs") / name
        folder.mkdir()
        (folder / "journal.jsonl").write_bytes(content)
    rows = [row.split()[:2] for row in runs().stdout.splitlines()[1:]]
    assert rows == [["garbage", "unreadable"], ["good", "finished"], ["empty", "empty"]]


def test_a_run_in_which_nothing_was_watched_does_not_look_healthy() -> None:
    """It comes before those that are fine, and says what it logs."""
    klarm.init("odd", console=False)
    for _ in range(5):
        klarm.log({"H": 1.0, "KL_div": 0.1})
    klarm.finish()
    record("good", [0.1] * 5)
    first, second = runs(columns=140).stdout.splitlines()[1:]
    assert first.split()[:2] == ["odd", "finished"]
    assert first.endswith("not watched: no detector knows any of H, KL_div")
    assert second.rstrip().endswith("–")
    odd, good = json.loads(runs("--format", "json").stdout)
    assert (odd["health"], good["health"]) == ("unwatched", "ok")
    assert odd["not_watched"] == "Nothing was watched: no detector knows any of H, KL_div."
    assert good["not_watched"] == ""


def test_a_folder_without_runs_is_reported() -> None:
    """For a named folder this is an error, for the default folder it is not."""
    assert "there is no run in klarm_runs yet" in runs().stdout
    done = CliRunner().invoke(command, ["runs", "nowhere"])
    assert done.exit_code == 1
    assert "there is no folder nowhere" in done.output


def test_runs_can_be_printed_as_json() -> None:
    """It is strict JSON, with NaN as text."""
    record("broken", [*[0.1, 0.2] * 20, math.nan])
    (found,) = json.loads(runs("--format", "json").stdout, parse_constant=pytest.fail)
    assert (found["run"], found["state"], found["health"]) == ("broken", "finished", "critical")
    assert (found["steps"], found["last_step"], found["kl"]) == (41, 40, "NaN")
    assert found["open_incidents"][0]["signal"] == "kl"


def test_control_codes_in_a_name_are_escaped() -> None:
    """A run whose first line is damaged has the name of its folder, which may be anything."""
    record("a", [0.1] * 3)
    journal = Path("klarm_runs/a").rename("klarm_runs/a\x1b[2Jb") / "journal.jsonl"
    journal.write_bytes(journal.read_bytes().replace(b'"run":"a"', b'"run":"b"'))
    shown = runs().stdout
    assert "\x1b" not in shown
    assert "a\\x1b[2Jb" in shown


@pytest.mark.parametrize("arguments", [["runs"], ["show", "a"], ["prune"]])
def test_a_section_that_only_the_script_knows_is_ignored(arguments: list[str]) -> None:
    """Detectors of a script have sections, but commands do not load the script."""
    record("a", [0.5] * 20)
    Path("klarm.yaml").write_text("pass_rate_floor: {floor: 0.3}\n")
    done = CliRunner().invoke(command, arguments)
    assert done.exit_code == 0, done.output
