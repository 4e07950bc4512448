"""The commands, run as a user runs them."""

from __future__ import annotations

import contextlib
import json
import math
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import klarm
from cli.commands import run_klarm, run_on_terminal
from klarm.cli.demo import RECORDINGS, read_recording
from klarm.detectors import CATALOGUE
from klarm.settings.fields import settings_of

pytestmark = pytest.mark.usefixtures("one_detector")

# Alarms at every step; that opens an incident only where few steps have to confirm it.
RISING = [5.0, 20.0, 80.0, 320.0, 1280.0]
COMMAND = [sys.executable, "-m", "klarm"]


def write_log(values: list[float], name: str = "log.csv") -> None:
    rows = "".join(f"{step},{value}\n" for step, value in enumerate(values))
    Path(name).write_text("step,kl\n" + rows)


def test_demo_without_a_terminal_prints_plain_lines() -> None:
    """It shows the run, the alert, what was caught at which step, and what to type next."""
    done = run_klarm("demo")
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    opened = re.search(r"^klarm INCIDENT 2 on kl opened, warning, step (\d+)", done.stdout, re.M)
    assert opened is not None
    assert "klarm INCIDENT 2 on kl escalated, critical, step " in done.stdout
    assert 150 < int(opened[1]) < 165  # the learning rate jumps after step 150
    assert f"Incident 2 opened at step {opened[1]}, at KL " in done.stdout
    assert "  Likely cause: the learning rate was raised" in done.stdout
    assert len(done.stdout.splitlines()) < 50


@pytest.mark.parametrize("arguments", [["exploding"], ["drifting", "--frozen"], ["healthy"]])
def test_the_commands_that_the_demo_suggests_work(arguments: list[str]) -> None:
    """The path of the recording is right."""
    shown = run_klarm("demo", *arguments).stdout
    offered = re.findall(r"^  .*klarm\S* ((?:replay|demo).*)$", shown, re.MULTILINE)
    assert [line.split()[0] for line in offered] == ["replay", "demo"]
    offered = [line.partition("#")[0].strip() for line in offered]
    assert " ".join(["demo", *arguments]) not in offered
    offered.remove("demo --page")  # ends with Ctrl-C only: see test_serve.py
    for line in offered:
        assert run_klarm(*shlex.split(line)).returncode == 0


@pytest.mark.parametrize("recording", RECORDINGS)
def test_demo_plays_each_recording(recording: str) -> None:
    """This works in both modes, and klarm.yaml is not used."""
    Path("klarm.yaml").write_text("kl_explosion: {enabled: false}")
    for arguments in ([recording], [recording, "--frozen"]):
        done = run_klarm("demo", *arguments)
        assert (done.returncode, done.stderr) == (0, "")
        assert f"{len(read_recording(recording))} steps," in done.stdout
    assert not Path("klarm_runs").exists()


def test_the_script_that_is_installed_runs_commands() -> None:
    """It stands beside Python, and needs no configuration."""
    script = Path(sys.executable).with_name("klarm")
    done = subprocess.run([script, "runs"], capture_output=True, text=True, check=True)
    assert "there is no run in klarm_runs yet" in done.stdout


def test_ctrl_c_is_quiet() -> None:
    """No traceback, no `Aborted!`; the exit code says that it was interrupted."""
    master, slave = pty.openpty()
    size = {"TERM": "xterm-256color", "COLUMNS": "100", "LINES": "40"}
    with subprocess.Popen(
        [*COMMAND, "demo"], stdin=slave, stdout=slave, stderr=slave, env={**os.environ, **size}
    ) as process:
        os.close(slave)
        shown = b""
        while b"baseline" not in shown:
            shown += os.read(master, 65536)
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(OSError):  # the terminal's other end is closed
            while piece := os.read(master, 65536):
                shown += piece
    os.close(master)
    assert process.returncode == 130
    assert b"Traceback" not in shown
    assert b"Abort" not in shown


def test_init_writes_every_setting_and_never_overwrites() -> None:
    """Each setting has its meaning beside it."""
    done = run_klarm("init")
    assert done.returncode == 0
    text = Path("klarm.yaml").read_text()
    for kind in CATALOGUE:
        assert f"\n{kind.name}:\n" in text
        for setting in settings_of(kind).values():
            assert f"  {setting.name}: " in text
            assert setting.meaning in text
    Path("klarm.yaml").write_text("run: mine")
    again = run_klarm("init")
    assert again.returncode == 1
    assert "klarm.yaml already exists and is not changed" in again.stderr
    assert Path("klarm.yaml").read_text() == "run: mine"
    assert run_klarm("init", "other.yaml").returncode == 0
    assert "cannot write no/where.yaml: No such file" in run_klarm("init", "no/where.yaml").stderr


def test_detectors_are_listed_with_settings_and_defaults() -> None:
    """The whole catalogue is listed."""
    done = run_klarm("detectors")
    assert done.returncode == 0
    for kind in CATALOGUE:
        assert kind.name in done.stdout
        for setting in settings_of(kind).values():
            assert setting.name in done.stdout
            assert str(setting.default) in done.stdout


@pytest.fixture
def quick_to_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let three consecutive alerts open an incident."""
    monkeypatch.setenv("KLARM_KL_EXPLOSION__CONFIRM_STEPS", "3")


@pytest.mark.usefixtures("quick_to_open")
def test_replay_prints_the_incidents_of_a_log() -> None:
    """It also prints advice for the worst, and counts the alerts, or lists them with --alerts."""
    write_log([*[0.4, 0.6] * 50, 0.9, *RISING])
    done = run_klarm("replay", "log.csv")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0].startswith("klarm INCIDENT 1 on kl opened, warning, step 102: ")
    assert any(line.startswith("klarm INCIDENT 1 on kl escalated, critical") for line in lines)
    *_, total, alerts, watching, off = lines
    assert total == "106 rows replayed: 1 incident, 1 critical, 1 open at the end."
    assert alerts == "Alerts: 1 warning, 5 critical (--alerts lists them)."
    assert watching == "watching kl"
    assert off.startswith("off (enabled: false): kl_runaway, ")
    assert lines[2].startswith("  -> Act now")
    listed = run_klarm("replay", "log.csv", "--alerts").stdout.splitlines()
    start = listed.index(next(line for line in listed if line.startswith("step ")))
    assert start > 0
    assert listed[start].startswith("step   100  warning   kl_explosion: KL 0.9 is 4σ above")
    assert listed[start + 1].startswith("step   101  critical  kl_explosion: KL 5 is")
    assert "Alerts: 1 warning, 5 critical." in listed


def test_replay_gives_no_advice_for_alerts_without_an_incident() -> None:
    """A run without an incident is healthy."""
    write_log([*[0.4, 0.6] * 50, 5.0, *[0.4, 0.6] * 5])
    total, alerts, why, *_ = run_klarm("replay", "log.csv").stdout.splitlines()
    assert total == "111 rows replayed: no incident."
    assert alerts == (
        "Alerts: 0 warnings, 1 critical (--alerts lists them). They opened no incident:"
    )
    assert why == "  kl_explosion needs 50 consecutive rows with an alert"


@pytest.mark.usefixtures("quick_to_open")
def test_replay_separates_rolled_back_steps_and_incidents() -> None:
    """They are shown, but do not count in the sum or for the exit code."""
    rows = [*enumerate([*[0.4, 0.6] * 15, *RISING]), *enumerate([0.4, 0.6] * 5, start=30)]
    Path("log.csv").write_text("step,kl\n" + "".join(f"{s},{v}\n" for s, v in rows))
    done = run_klarm("replay", "log.csv", "--fail-on", "warning")
    assert done.returncode == 0
    assert "klarm INCIDENT 1 on kl opened, critical, step 32" in done.stdout
    assert "Rolled back: training went back to step 30." in done.stdout
    assert "40 rows replayed (5 more were rolled back): no incident.\n" in done.stdout
    document = json.loads(run_klarm("replay", "log.csv", "--format", "json").stdout)
    assert (document["steps"], document["rolled_back"], document["incidents"]) == (40, 5, [])
    assert [event["event"] for event in document["events"]] == [
        "opened",
        "escalated",
        "resolved",
    ]


def test_replay_can_print_json() -> None:
    """It is strict JSON, even with a NaN."""
    write_log([0.1, float("nan")])
    done = run_klarm("replay", "log.csv", "--format", "json")
    document = json.loads(done.stdout, parse_constant=pytest.fail)
    assert document["steps"] == 2
    assert "kl_explosion" in document["watched"]
    (alert,) = document["alerts"]
    assert (alert["severity"], alert["step"]) == ("critical", 1)
    assert alert["metrics"]["kl"] == "NaN"
    (incident,) = document["incidents"]
    assert (incident["signal"], incident["severity"]) == ("kl", "critical")
    assert (incident["started"], incident["opened"], incident["resolved"]) == (1, 1, None)


@pytest.mark.usefixtures("quick_to_open")
@pytest.mark.parametrize(
    ("last", "fail_on", "code"),
    [
        ([0.5] * 5, "warning", 0),
        ([0.85, 0.9, 0.95, 1.0, 1.05], "warning", 1),
        ([0.85, 0.9, 0.95, 1.0, 1.05], "critical", 0),
        (RISING, "critical", 1),
        (RISING, "warning", 1),
        (RISING, None, 0),
        ([5.0, 0.5], "warning", 0),
        ([math.nan, *[0.5] * 40], "critical", 1),
    ],
)
def test_fail_on_sets_the_exit_code(last: list[float], fail_on: str | None, code: int) -> None:
    """It is 1 for an incident of that severity or worse, even if resolved; alerts do not count."""
    write_log([*[0.4, 0.6] * 50, *last])
    arguments = ["--fail-on", fail_on] if fail_on else []
    assert run_klarm("replay", "log.csv", *arguments).returncode == code


def test_a_journal_is_replayed_with_its_own_settings_by_default() -> None:
    """A klarm.yaml in the working directory is not used."""
    klarm.init("a", console=False, kl_explosion={"sigma_multiplier": 50})
    for value in [*[0.4, 0.6] * 50, 0.9]:
        klarm.log({"kl": value})
    klarm.finish()
    Path("klarm.yaml").write_text("kl_explosion: {sigma_multiplier: 3.5}")
    journal = "klarm_runs/a/journal.jsonl"
    assert "No alerts." in run_klarm("replay", journal).stdout
    assert "1 warning," in run_klarm("replay", journal, "--config", "klarm.yaml").stdout
    assert (
        "1 warning,"
        in run_klarm("replay", journal, "--set", "kl_explosion.sigma_multiplier=3").stdout
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["replay", "missing.csv"], "Path 'missing.csv' does not exist"),
        (["replay", "junk.txt"], "junk.txt holds no rows: klarm reads CSV"),
        (["replay", "/dev/null"], "/dev/null is not a file"),
        (["replay", "blind.csv"], "nothing in blind.csv could be watched; it holds kl_div, loss"),
        (["replay", "blind.csv", "--fail-on", "warning"], "nothing in blind.csv could be watched"),
        (["replay", "log.csv", "--config", "no.yaml"], "config file 'no.yaml' does not exist"),
        (["replay", "log.csv", "--set", "sigma"], "--set takes SECTION.NAME=VALUE, got 'sigma'"),
        (
            ["replay", "log.csv", "--set", "kl_explosion.sigma=2"],
            "klarm: --set: kl_explosion.sigma is unknown; did you mean sigma_multiplier?",
        ),
        (["replay", "log.csv", "--fail-on", "sometimes"], "'sometimes' is not one of"),
        (["dance"], "No such command 'dance'"),
        (["demo", "sideways"], "'sideways' is not one of"),
    ],
)
def test_mistakes_are_one_line_errors(arguments: list[str], message: str) -> None:
    """The exit code is 2, and there is no traceback."""
    write_log([0.1])
    Path("junk.txt").write_text("junk")
    Path("blind.csv").write_text("step,kl_div,loss\n1,0.1,0.2\n")
    done = run_klarm(*arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_closed_pipe_is_quiet() -> None:
    """`klarm replay LOG | head -1` prints no error."""
    write_log([*[0.4, 0.6] * 50, *[float(i) ** 3 for i in range(2, 5000)]])
    line = f"{sys.executable} -m klarm replay log.csv | head -1"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""


def test_a_terminal_whose_encoding_has_no_sigma_is_no_error() -> None:
    """Other characters are shown."""
    returncode, shown = run_on_terminal("demo", "--fast", encoding="ascii")
    assert returncode == 0
    assert "klarm demo" in shown
    assert "Traceback" not in shown
