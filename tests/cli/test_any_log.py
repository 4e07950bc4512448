"""`klarm replay` and `klarm follow` read logs of all kinds.

Covers log_columns.py.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.commands import run_klarm
from klarm.journal.file import read_journal
from klarm.journal.records import Step

FOLLOW_STDIN = ("follow", "-", "--poll", "0.02")
KL = [*[0.4, 0.6] * 50, float("nan")]


def table(*names: str, divider: str = ",", decimal: str = ".") -> str:
    """Return a log as a table with ten steps per row; every column but the step holds KL."""
    lines = [divider.join(names)]
    for number, kl in enumerate(KL):
        cells = [str(10 * number) if "kl" not in name.lower() else str(kl) for name in names]
        lines.append(divider.join(cells).replace(".", decimal))
    return "\n".join(lines) + "\n"


def incident_steps(*arguments: str, given: bytes = b"") -> list[int]:
    """Return the steps at which incidents opened in a replay."""
    done = run_klarm("replay", *arguments, "--format", "json", given=given)
    assert done.returncode == 0, done.stderr
    events = json.loads(done.stdout)["events"]
    return [event["step"] for event in events if event["event"] == "opened"]


@pytest.mark.parametrize("step", ["train/global_step", "global_step", "step", "iteration", "_step"])
@pytest.mark.parametrize("spell", [str, str.upper, str.title], ids=["as it is", "UPPER", "Title"])
def test_a_step_column_is_found_in_any_spelling(step: str, spell: Callable[[str], str]) -> None:
    """The KL column is, too. The incident is reported at its step, not at its row."""
    Path("log.csv").write_text(table(spell(step), spell("kl")))
    assert incident_steps("log.csv") == [1000]


def test_counting_rows_for_lack_of_a_step_column_is_reported() -> None:
    """The message says what to do, and names the most likely column."""
    Path("log.csv").write_text(table("my_training_step", "kl"))
    for command in (["replay", "log.csv"], ["follow", "log.csv", "--once"]):
        done = run_klarm(*command)
        assert "no step column found, so rows are counted from 0" in done.stderr
        assert "--step-column my_training_step" in done.stderr
    assert incident_steps("log.csv") == [100]
    assert incident_steps("log.csv", "--step-column", "my_training_step") == [1000]
    assert incident_steps("log.csv", "--step-column", "My_Training_STEP") == [1000]
    done = run_klarm("replay", "log.csv", "--step-column", "my_training_step")
    assert "counted" not in done.stderr


def test_the_settings_can_name_the_step_column() -> None:
    """`metrics: {step: ...}` in klarm.yaml works for both commands; an option overrides it."""
    Path("log.csv").write_text(table("n", "other", "kl"))
    Path("klarm.yaml").write_text("metrics: {step: n}\n")
    assert incident_steps("log.csv") == [1000]
    assert run_klarm("follow", "log.csv", "--once").returncode == 0
    assert recorded("log")[:3] == [0, 10, 20]
    assert incident_steps("log.csv", "--step-column", "other") == [1000]


def test_the_hint_for_steps_names_a_column_that_counts() -> None:
    """A step size has "step" in its name, and never changes."""
    rows = "".join(f"{n},{0.01 + n % 7 / 1000},1e-6\n" for n in range(60))
    Path("log.csv").write_text(f"it,kl,stepsize\n{rows}")
    assert "; if it is the step, pass --step-column it\n" in run_klarm("replay", "log.csv").stderr


def test_the_hint_for_steps_can_be_pasted_into_a_shell() -> None:
    """Whatever is in the name of the column."""
    Path("log.csv").write_text(table("Iter #", "kl"))
    assert (
        "; if 'Iter #' is the step, pass --step-column 'Iter #'\n"
        in run_klarm("replay", "log.csv").stderr
    )


def test_a_missing_step_column_is_an_error() -> None:
    """The message names the columns of the log."""
    Path("log.csv").write_text(table("step", "kl"))
    for command in ("replay", "follow"):
        once = ["--once"] if command == "follow" else []
        done = run_klarm(command, "log.csv", "--step-column", "stepp", *once)
        assert done.returncode == 2
        assert "log.csv has no column stepp; it has step, kl" in done.stderr
        assert "no incident" not in done.stdout + done.stderr


@pytest.mark.parametrize("name", ["KL_div", "kl_DIV"])
def test_a_column_can_be_mapped_to_a_metric(name: str) -> None:
    """Both commands have the option."""
    Path("log.csv").write_text(table("step", "KL_div"))
    assert incident_steps("log.csv", "--map", f"kl={name}") == [1000]
    done = run_klarm("follow", "log.csv", "--once", "--map", f"kl={name}", "--fail-on", "critical")
    assert done.returncode == 1
    assert "kl ← KL_div" in done.stderr


@pytest.mark.parametrize("command", ["replay", "follow"])
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("kl", "--map takes METRIC=COLUMN, as in kl=KL_div, got 'kl'"),
        ("kll=KL_div", "--map: metrics.kll is unknown; did you mean kl?"),
    ],
)
def test_a_wrong_mapping_is_a_one_line_error(command: str, given: str, message: str) -> None:
    """The exit code is 2."""
    Path("log.csv").write_text(table("step", "kl"))
    done = run_klarm(command, "log.csv", "--map", given)
    assert done.returncode == 2
    assert message in done.stderr


def test_follow_accepts_settings() -> None:
    """It does so like replay, including settings without a section."""
    Path("log.csv").write_text(table("step", "kl"))
    done = run_klarm(
        *("follow", "log.csv", "--once", "--set", "run=mine"),
        *("--set", "loss_nan.enabled=false", "--set", "kl_explosion.sigma_multiplier=9"),
    )
    assert done.returncode == 0
    assert recorded("mine")[-1] == 1000
    head = json.loads(Path("klarm_runs/mine/journal.jsonl").read_text().splitlines()[0])
    assert head["config"]["kl_explosion"]["sigma_multiplier"] == 9.0
    done = run_klarm("follow", "log.csv", "--once", "--set", "kl_explosion.sigma=2")
    assert done.returncode == 2
    assert "--set: kl_explosion.sigma is unknown; did you mean sigma_multiplier?" in done.stderr


def recorded(name: str) -> list[int]:
    """Return the steps in the journal of a run."""
    journal = Path("klarm_runs") / name / "journal.jsonl"
    return [record.step for record in read_journal(journal) if isinstance(record, Step)]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("log.csv", table("step", "kl", divider=";")),
        ("log.csv", table("Step", "KL", divider=";", decimal=",")),
        ("log.csv", table("step", "kl", divider="\t")),
        ("log.tsv", table("step", "kl", divider="\t")),
        ("log.TSV", table("step", "kl", divider="\t")),
        ("log.txt", table("step", "kl")),
        ("log", table("step", "kl", divider=";")),
    ],
)
def test_a_table_is_read_with_any_separator(name: str, text: str) -> None:
    """It may have semicolons (and decimal commas) or tabs. The header shows which."""
    Path(name).write_text(text)
    assert incident_steps(name) == [1000]
    arguments = ("--once", "--fail-on", "critical", "--run", "a")
    assert run_klarm("follow", name, *arguments).returncode == 1


@pytest.mark.parametrize("name", ["log.csv.gz", "log.jsonl.gz", "trainer_state.json.gz", "log.gz"])
def test_a_compressed_log_is_replayed(name: str) -> None:
    """Every format may be compressed."""
    rows = [{"step": 10 * number, "kl": kl} for number, kl in enumerate(KL)]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    text = {
        "log.csv.gz": table("step", "kl"),
        "trainer_state.json.gz": json.dumps({"log_history": rows}),
    }.get(name, lines)
    Path(name).write_bytes(gzip.compress(text.encode()))
    assert incident_steps(name) == [1000]


def test_a_compressed_journal_is_a_journal() -> None:
    """It is replayed with its own settings."""
    Path("log.csv").write_text(table("step", "kl"))
    run_klarm("follow", "log.csv", "--once", "--set", "kl_explosion.enabled=false")
    journal = Path("klarm_runs/log/journal.jsonl")
    Path("journal.jsonl.gz").write_bytes(gzip.compress(journal.read_bytes()))
    assert incident_steps("journal.jsonl.gz") == [1000]
    for log, expected in (("journal.jsonl.gz", False), ("log.csv", True)):
        alerts = json.loads(run_klarm("replay", log, "--format", "json").stdout)["alerts"]
        assert ("kl_explosion" in {alert["detector"] for alert in alerts}) is expected


def test_the_intact_part_of_a_damaged_compressed_log_is_read() -> None:
    """The damage is reported under the original name of the log."""
    whole = gzip.compress(table("step", "kl").encode(), mtime=0)
    Path("log.csv.gz").write_bytes(whole[: len(whole) // 2])
    done = run_klarm("replay", "log.csv.gz")
    assert "log.csv.gz is damaged or incomplete; only the part before that is read" in done.stderr
    Path("no.csv.gz").write_bytes(b"step,kl\n1,2\n")
    done = run_klarm("replay", "no.csv.gz")
    assert done.returncode == 2
    assert done.stderr == "klarm: no.csv.gz is not a gzip file\n"


def test_a_compressed_log_is_not_followed() -> None:
    """A compressed file cannot grow row by row."""
    Path("log.csv.gz").write_bytes(gzip.compress(table("step", "kl").encode()))
    done = run_klarm("follow", "log.csv.gz", "--once")
    assert done.returncode == 2
    assert "log.csv.gz is compressed: klarm follow cannot read it, klarm replay can" in done.stderr


@pytest.mark.parametrize("divider", [",", ";", ""])
def test_a_log_can_come_from_stdin(divider: str) -> None:
    """It may be a table or JSON Lines, for both commands."""
    rows = [json.dumps({"step": 10 * number, "kl": kl}) for number, kl in enumerate(KL)]
    text = table("step", "kl", divider=divider) if divider else "\n".join(rows)
    assert incident_steps("-", given=text.encode()) == [1000]
    done = run_klarm(*FOLLOW_STDIN, "--run", "a", "--fail-on", "critical", given=text.encode())
    assert done.returncode == 1
    assert recorded("a")[-1] == 1000


def test_a_run_from_stdin_continues_the_next_time() -> None:
    """New steps are added, and repeated ones are skipped."""
    lines = table("step", "kl").splitlines(keepends=True)
    run_klarm(*FOLLOW_STDIN, "--run", "a", given="".join(lines[:51]).encode())
    run_klarm(
        "follow",
        "-",
        "--poll",
        "0.02",
        "--run",
        "a",
        given="".join([lines[0], *lines[51:]]).encode(),
    )
    assert recorded("a") == [10 * number for number in range(101)]


def test_empty_stdin_is_an_error_and_following_it_needs_a_name() -> None:
    """A followed run needs a name."""
    for arguments in (["replay", "-"], [*FOLLOW_STDIN, "--run", "a"]):
        done = run_klarm(*arguments, given=b"")
        assert done.returncode == 2
        assert "stdin holds no rows" in done.stderr
    done = run_klarm("follow", "-", given=b"step,kl\n1,2\n")
    assert done.returncode == 2
    assert "name the run with --run" in done.stderr


@pytest.mark.parametrize("times", [1, 2])
def test_follow_never_reports_no_incident_if_nothing_was_watched(times: int) -> None:
    """The exit code is 2, and nothing says "no incident", even if no row is new."""
    Path("blind.csv").write_text(table("step", "KL_div"))
    for _ in range(times):
        done = run_klarm("follow", "blind.csv", "--once", "--fail-on", "critical")
    assert done.returncode == 2
    assert "nothing in blind.csv could be watched; it holds KL_div" in done.stderr
    assert "--map kl=KL_div" in done.stderr
    assert "no incident" not in done.stderr


def test_a_follower_without_new_rows_says_that_nothing_was_watched() -> None:
    """It reads the same log again, without an error before the log is complete."""
    Path("blind.csv").write_text(table("step", "KL_div"))
    run_klarm("follow", "blind.csv", "--once")
    done = run_klarm("follow", "blind.csv", "--until-idle", "0.1", "--poll", "0.02")
    assert done.returncode == 2
    waiting, *_ = done.stderr.splitlines()
    assert waiting.startswith("klarm: following blind.csv; nothing new since step ")
    assert waiting.endswith("; nothing was watched: no detector knows any of KL_div")
    assert "no incident" not in done.stderr


def test_replay_never_reports_no_incident_if_nothing_was_watched() -> None:
    """This holds for text and for JSON."""
    Path("blind.csv").write_text(table("step", "KL_div"))
    for output in ("text", "json"):
        done = run_klarm("replay", "blind.csv", "--format", output)
        assert done.returncode == 2
        assert "nothing in blind.csv could be watched; it holds KL_div" in done.stderr
        assert "no incident" not in done.stdout + done.stderr
    assert json.loads(done.stdout)["watched"] == []


def test_the_hint_for_a_missing_metric_names_map() -> None:
    """The log is already written, so "log it as kl" would not help."""
    Path("log.csv").write_text(table("step", "KL_div", "reward"))
    done = run_klarm("replay", "log.csv")
    assert done.returncode == 0
    hint = "if KL_div is that (KL of the policy to the reference model), use --map kl=KL_div"
    assert hint in done.stdout
    assert "log it as" not in done.stdout


@pytest.mark.parametrize("command", [["replay"], ["follow", "--once"]])
@pytest.mark.parametrize("times", [1, 2])
def test_a_missing_mapped_column_is_an_error(command: list[str], times: int) -> None:
    """Otherwise a check in CI would pass although KL is not watched; the second time, too."""
    Path("log.csv").write_text(table("step", "KL_div", "kl_old"))
    for _ in range(times):
        done = run_klarm(*command, "log.csv", "--map", "kl=KL_dif", "--fail-on", "critical")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--map: log.csv has no column KL_dif for kl; did you mean KL_div?" in done.stderr


def test_follow_finds_a_mapped_column_in_rows_that_it_has_recorded() -> None:
    """The new rows of JSON Lines need not have it."""
    log = Path("log.jsonl")
    log.write_text('{"step": 0, "KL_div": 0.5, "reward": 1}\n{"step": 1, "reward": 1}\n')
    for step in (2, 3):
        assert run_klarm("follow", str(log), "--once", "--map", "kl=KL_div").returncode == 0
        with log.open("a") as file:
            file.write(f'{{"step": {step}, "reward": 1}}\n')
    assert recorded("log") == [0, 1, 2]


def test_a_mapped_column_may_come_while_a_log_is_followed() -> None:
    """Until then there is a notice; it is an error if stdin ends without it."""
    rows = [{"step": step, "reward": step % 7} for step in range(9)]
    rows[-1]["KL_div"] = 1
    for mapped, code in (("KL_div", 0), ("KL_dif", 2)):
        text = "\n".join(json.dumps(row) for row in rows)
        done = run_klarm(
            "follow",
            "-",
            "--poll",
            "0.02",
            "--run",
            mapped,
            "--map",
            f"kl={mapped}",
            given=text.encode(),
        )
        assert f"metrics.kl names {mapped}, which is not logged" in done.stderr
        assert ("kl ← KL_div" in done.stderr) is (code == 0)
        assert ("--map: stdin has no column KL_dif for kl" in done.stderr) is (code == 2)
        assert done.returncode == code


def test_stdin_may_be_compressed() -> None:
    """`klarm replay - < log.csv.gz` works."""
    packed = gzip.compress(table("step", "kl").encode())
    assert incident_steps("-", given=packed) == [1000]
    done = run_klarm("replay", "-", given=packed[:-40])
    assert "stdin is damaged or incomplete" in done.stderr


def test_no_incident_says_so_where_that_means_little() -> None:
    """Without a KL, and in a log of a few rows."""
    write = Path("log.csv").write_text
    write("step,reward\n" + "".join(f"{n},{n % 7}\n" for n in range(60)))
    assert (
        "60 rows replayed: no incident; no KL was watched." in run_klarm("replay", "log.csv").stdout
    )
    followed = run_klarm("follow", "log.csv", "--once").stderr
    assert "run log as of step 59 (60 new rows): no incident; no KL was watched\n" in followed
    again = run_klarm("follow", "log.csv", "--once").stderr
    assert "nothing new since step 59; no incident is open; no KL was watched\n" in again
    write("step,kl\n" + "".join(f"{n},{0.01 + n % 7 / 1000}\n" for n in range(10)))
    shown = run_klarm("replay", "log.csv").stdout
    assert "10 rows replayed: no incident; most detectors need more rows than these" in shown
    section = "How few rows are too few"
    assert f'(docs/without-kl.md: "{section}")' in shown
    page = Path(__file__).parents[2] / "docs" / "without-kl.md"
    assert section in page.read_text()
    write("step,kl\n" + "".join(f"{n},{0.01 + n % 7 / 1000}\n" for n in range(60)))
    assert "60 rows replayed: no incident.\n" in run_klarm("replay", "log.csv").stdout
