"""`klarm show` shows a run, or one incident, in detail.

Covers show_incident.py too.
"""

from __future__ import annotations

import math
import random
import time
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

import klarm
from cli.commands import run_klarm
from klarm.cli.demo import read_recording
from klarm.cli.group import klarm as command
from klarm.delivery import deliveries
from klarm.runs import RunView, read_run


@pytest.fixture
def exploding() -> None:
    """Record the exploding run, with checkpoints."""
    monitor = klarm.init("grpo", console=False)
    for row in read_recording("exploding"):
        step = row["step"]
        klarm.log({key: value for key, value in row.items() if key != "step"}, step)
        if step % 50 == 0:
            Path(f"step-{step}").touch()
            monitor.checkpoint(step, f"step-{step}")
    klarm.finish()


def show(*arguments: str, columns: int = 80) -> Result:
    return CliRunner().invoke(command, ["show", *arguments], env={"COLUMNS": str(columns)})


def one_line(done: Result) -> str:
    assert done.exit_code == 0, done.output
    return " ".join(done.stdout.split())


def assert_all_in(shown: str, *expected: str) -> None:
    assert [text for text in expected if text not in shown] == []


@pytest.mark.usefixtures("exploding")
def test_a_run_is_shown_with_its_curve_and_incidents() -> None:
    """It shows the folder, the steps, the metrics and the incidents."""
    curve = show().stdout.partition("KL over the run (logarithmic)\n")[2].partition("\n\n")[0]
    assert curve.startswith("     16.2 │")
    assert curve.count("●") > 60
    shown = one_line(show())
    assert shown.startswith("run grpo: finished, critical folder klarm_runs/grpo started 20")
    assert_all_in(
        shown,
        "rows 300 (steps 1 to 300), last seen",
        "checkpoint step 300: step-300 (the last of 6)",
        "length 9.75 ← completions/mean_length",
        "KL over the run",
        "kl critical, began at step 153 (unresolved when the run ended)",
        "Details of an incident: klarm show grpo 1",
    )


@pytest.mark.usefixtures("exploding")
def test_an_incident_is_shown_in_detail() -> None:
    """It shows events, advice, curve, cause, the last good checkpoint and notifications."""
    assert_all_in(
        one_line(show("grpo", "2")),
        "kl critical, began at step 153 (unresolved when the run ended)",
        "→ Go back to a checkpoint from before step 152, and lower",
        "kl (logarithmic), steps of the incident marked",
        "━",
        "step 157 opened, warning:",
        "step 159 escalated, critical: Raised from warning to critical.",
        "cause the learning rate was raised",
        "moved learning_rate ×100 since step 152",
        "peak 16.2 (level before the rise: 0.0237)",
        "go back to step-150",
        "(kl_explosion 17, kl_runaway 27, kl_budget 15)",
        "nobody was notified",
    )


@pytest.mark.parametrize("apart", [1, 10])
def test_the_curve_of_an_incident_begins_a_hundred_rows_before_it(apart: int) -> None:
    """And ends twenty rows after it, if it is over: a trainer may log every tenth step."""
    klarm.init("grpo", console=False)
    for row in range(400):
        klarm.log({"kl": (5.0 if 250 <= row < 300 else 0.02) + 0.001 * (row % 3)}, apart * row)
    klarm.finish()
    (incident,) = read_run(Path("klarm_runs/grpo")).fold.incidents.values()
    assert incident.state == "resolved"
    began, ended = incident.last.started // apart, incident.last.step // apart
    assert f" step {apart * (began - 100)} {apart * (ended + 20)} " in one_line(show("grpo", "1"))


@pytest.mark.parametrize("apart", [1, 10])
def test_of_a_long_incident_the_thinned_curve_of_the_run_is_drawn(
    apart: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal is not read again: that of a huge run takes long."""
    monkeypatch.setattr("klarm.cli.show_incident._MANY_ROWS", 50)
    monkeypatch.setattr(RunView, "columns_around", lambda *_: pytest.fail("it is read again"))
    klarm.init("grpo", console=False)
    for row in range(400):
        klarm.log({"kl": (5.0 if row >= 250 else 0.02) + 0.001 * (row % 3)}, apart * row)
    klarm.finish()
    (incident,) = read_run(Path("klarm_runs/grpo")).open_incidents
    began = incident.last.started // apart
    shown = one_line(show("grpo", "1"))
    assert f" step {apart * (began - 100)} {apart * 399} " in shown
    assert "peak 5 (level" in shown


@pytest.mark.usefixtures("exploding")
def test_the_lowest_value_of_a_fall_is_the_same_in_messages() -> None:
    """Its detector judges medians, but people compare what they read with the curve."""
    lowest = min(row["entropy"] for row in read_recording("exploding") if row["step"] >= 164)
    ended = list(read_run(Path("klarm_runs/grpo")).fold.incidents.values())[2].last
    assert (ended.metric, ended.peak) == ("entropy", lowest)
    assert f"lowest {lowest:.3g} (" in one_line(show("grpo", "3"))


def test_what_is_known_of_a_slow_fall_says_when_it_was_so() -> None:
    """It left its normal range before the first alert; what else moved is as of one step."""
    rng = random.Random(3)
    klarm.init("grpo", console=False)
    rewards = [
        0.5 + rng.gauss(0, 0.03) - min(0.4, 0.003 * max(0, step - 150)) for step in range(250)
    ]
    for step, reward in enumerate(rewards):
        entropy = rng.lognormvariate(0, 0.03) * 0.97 ** max(0, step - 180)
        klarm.log({"reward": reward, "entropy": entropy}, step)
    incidents = read_run(Path("klarm_runs/grpo")).fold.incidents.values()
    (opened,) = [i.opened for i in incidents if i.opened.signal == "reward"]
    klarm.finish()
    assert opened.onset is not None
    shown = one_line(show("grpo", str(opened.incident)))
    left = f"in hindsight, reward left its normal range at step {opened.onset}."
    lowest = min(rewards[opened.onset :])
    assert_all_in(
        shown,
        f"In alert since step {opened.started}; {left}",
        f"(as of step {opened.step})",
        f"lowest {lowest:.3g} (",
    )


def test_the_peak_of_an_incident_that_spreads_is_that_of_its_own_metric() -> None:
    """Its last report may be about another one, whose values do not compare with its levels."""
    rng = random.Random(3)
    klarm.init("grpo", console=False)
    for step in range(300):
        far = max(0, step - 200)
        metrics = {
            "grad_norm": 0.5 * 1.09 ** min(far, 60) * rng.lognormvariate(0, 0.2),
            "learning_rate": 2e-5 if far else 1e-6,
        }
        klarm.log(metrics, step)
    klarm.finish()
    shown = one_line(show("grpo", "1"))
    assert_all_in(
        shown,
        "further alert, warning: Also in alert: grad_norm",
        "learning_rate, steps of the incident marked",
        "peak 2e-5 (level before the rise: 1e-6)",
    )


def sent(*events: tuple[str, int], outcome: str = "sent", **more: object) -> None:
    """Record what became of some events of incident 2 on Slack, in one message."""
    folder = Path("klarm_runs/grpo")
    id_ = list(read_run(folder).fold.incidents)[1]
    known = {
        "type": "delivery",
        "id": id_,
        "incident": 2,
        "severity": "critical",
        "channel": "slack",
        "time": 1e9,
        "outcome": outcome,
        **more,
    }
    deliveries.append(
        folder,
        *(
            msgspec.convert(
                {"seq": seq, "event": kind, "step": step, **known}, deliveries.Delivered
            )
            for seq, (kind, step) in enumerate(events, 1)
        ),
    )


@pytest.mark.usefixtures("exploding")
def test_one_message_about_several_events_is_one_notification() -> None:
    """The record has a line for each event; people got one message."""
    sent(("opened", 157), ("escalated", 159), message="a1", covers=2)
    sent(("ended", 300), message="b2", time=1.1e9)
    shown = one_line(show("grpo", "2"))
    assert "2 notifications slack notified at 2001-09-0" in shown
    assert " in one message (opened, step 157; escalated, step 159) slack notified at" in shown
    assert shown.endswith("(ended, step 300)")


@pytest.mark.usefixtures("exploding")
def test_what_was_not_sent_is_no_notification() -> None:
    """It is listed with what kept it from being sent."""
    sent(("opened", 157), ("escalated", 159), outcome="silenced")
    shown = one_line(show("grpo", "2"))
    assert "nobody was notified slack silenced at 2001-09-0" in shown
    assert shown.endswith("(opened, step 157; escalated, step 159)")


@pytest.mark.usefixtures("exploding")
def test_an_incident_can_be_named_by_its_id() -> None:
    """`klarm incidents` lists the ids."""
    by_number = one_line(show("grpo", "2"))
    id_ = by_number.partition("incident 2 (")[2].partition(")")[0]
    assert one_line(show("grpo", id_)) == by_number


@pytest.mark.usefixtures("exploding")
@pytest.mark.parametrize("columns", [40, 80, 120])
def test_it_fits_the_terminal(columns: int) -> None:
    """No line is wider, and wrapped text stays beside its label."""
    for arguments in ([], ["grpo", "2"]):
        lines = show(*arguments, columns=columns).stdout.splitlines()
        assert max(map(len, lines)) <= columns
    moved = [line for line in lines if "learning_rate ×100" in line]
    below = lines[lines.index(moved[0]) + 1]
    assert below.startswith(" " * 14)


def test_a_nan_and_a_run_without_kl_are_shown() -> None:
    """Values that cannot be drawn are marked."""
    klarm.init("a", console=False)
    for step in range(30):
        klarm.log({"loss": 0.5 if step < 29 else math.nan}, step)
    klarm.finish()
    assert "KL over the run" not in show("a").stdout
    shown = one_line(show("a", "1"))
    assert "loss critical, began at step 29" in shown
    assert "×" in shown


@pytest.mark.usefixtures("exploding")
def test_mistakes_are_one_line_errors() -> None:
    """The message says what to do."""
    done = show("grop")
    assert done.exit_code == 1
    assert "there is no run grop in klarm_runs; did you mean grpo?" in done.output
    done = show("grpo", "9")
    assert done.exit_code == 1
    assert "run grpo has no incident 9; it has 1, 2, 3, 4, 5\n" in done.output


def test_a_run_in_which_nothing_was_watched_is_not_called_free_of_incidents() -> None:
    """It says which metrics were logged that no detector knows."""
    klarm.init("odd", console=False)
    for _ in range(5):
        klarm.log({"H": 1.0, "KL_div": 0.1})
    klarm.finish()
    shown = one_line(show())
    assert shown.startswith("run odd: finished, not watched folder")
    assert "Nothing was watched: no detector knows any of H, KL_div." in shown
    assert "no incident" not in shown
    assert "no open incident" not in shown


def test_a_run_without_a_step_is_not_called_free_of_incidents() -> None:
    """Nothing was watched, so nobody knows."""
    klarm.init("none", console=False)
    klarm.finish()
    shown = one_line(show())
    assert shown.startswith("run none: finished, empty folder")
    assert shown.endswith("No step is recorded yet.")
    assert "incident" not in shown


def test_without_a_run_it_says_how_to_name_one() -> None:
    """By the argument: this command has no option --run."""
    done = show()
    assert done.exit_code == 1
    said = "there is no run in klarm_runs; name one, or its folder, as in klarm show FOLDER"
    assert said in done.output


@pytest.mark.usefixtures("exploding")
def test_an_acknowledgement_is_shown_before_a_process_has_recorded_it() -> None:
    """And no longer after it was taken back."""
    acknowledge = ["ack", "2", "--by", "ann"]
    assert CliRunner().invoke(command, acknowledge).exit_code == 0
    assert "acknowledged by ann" in one_line(show("grpo", "2"))
    assert "acknowledged" not in one_line(show("grpo", "1"))
    assert CliRunner().invoke(command, [*acknowledge, "--undo"]).exit_code == 0
    assert "acknowledged" not in one_line(show("grpo", "2"))


@pytest.mark.usefixtures("exploding")
def test_the_first_sentence_says_at_which_step_it_was_true() -> None:
    """The peak below it is that of the whole incident."""
    assert " Step 159: KL is 0." in one_line(show("grpo", "2"))


@pytest.mark.usefixtures("exploding")
def test_a_list_says_when_an_incident_became_critical_and_who_is_on_it() -> None:
    """Its title has the step of the first alert, when it was a warning."""
    assert CliRunner().invoke(command, ["ack", "2", "--by", "ann"]).exit_code == 0
    whole = "kl critical, began at step 153 (unresolved when the run ended)"
    for arguments in ([], ["grpo", "2"]):
        shown = one_line(show(*arguments))
        assert f"{whole}, critical from step 159 on, acknowledged by ann" in shown
    runs = CliRunner().invoke(command, ["runs"], env={"COLUMNS": "250"})
    assert "kl (acknowledged)" in runs.stdout


@pytest.mark.usefixtures("exploding")
def test_a_title_is_wrapped_beside_its_number() -> None:
    """Not to the first column, where the next incident begins."""
    for arguments in ([], ["grpo", "2"]):
        lines = show(*arguments).stdout.splitlines()
        wrapped = [line for line in lines if "step 159" in line]
        assert wrapped
        assert wrapped[0].startswith(" " * 10)


@pytest.mark.usefixtures("exploding")
def test_times_are_in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in messages, which people compare with them."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        sent(("opened", 157), message="a1")
        assert "slack notified at 2001-09-09 01:46 UTC (opened" in one_line(show("grpo", "2"))
    finally:
        monkeypatch.delenv("TZ")
        time.tzset()


def test_a_change_has_the_same_name_as_in_messages() -> None:
    """An escalation of what was critical already is called far worse."""
    rng = random.Random(0)
    klarm.init("worse", console=False)
    for step in range(160):
        growth = 1.2 ** max(0, step - 100)
        klarm.log({"kl": 0.02 * rng.lognormvariate(0.0, 0.1) * growth}, step)
    klarm.finish()
    shown = one_line(show("worse", "1"))
    assert "opened, warning: This kl_runaway alert is enough" in shown
    assert "far worse, critical: Peak " in shown


def test_the_number_of_steps_without_a_metric_is_not_called_a_peak() -> None:
    """It has no unit and no curve."""
    klarm.init("stuck", console=False)
    for step in range(150):
        klarm.log({"kl": 0.02 + 0.001 * (step % 7), "entropy": 1.0 + min(step, 60) * 0.01}, step)
    klarm.finish()
    shown = one_line(show("stuck", "1"))
    assert "stuck entropy warning, began at step 60" in shown
    assert "peak" not in shown
    incident = next(iter(read_run(Path("klarm_runs/stuck")).fold.incidents.values()))
    assert isinstance(incident.last.peak, float)  # programs can still read it


@pytest.mark.usefixtures("exploding")
@pytest.mark.parametrize("arguments", [["show"], ["show", "grpo", "2"], ["runs"]], ids=" ".join)
def test_a_curve_is_drawn_in_ascii_where_nothing_else_can_be_printed(arguments: list[str]) -> None:
    """It would be rows of question marks. What is piped has no trailing spaces."""
    done = run_klarm(*arguments, encoding="ascii", COLUMNS="100")
    assert done.returncode == 0
    shown = done.stdout
    assert shown.isascii()
    assert "?" not in shown
    if arguments[0] == "show":
        assert shown.count("*") > 60
    else:
        assert "_" in shown.splitlines()[1]
    assert [line for line in shown.splitlines() if line != line.rstrip()] == []
