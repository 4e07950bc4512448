"""The commands for delivery, as users run them, with a real server."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from loopback import Server
from msgspec.structs import replace

import klarm
from cli.commands import run_klarm
from example_events import example_event
from klarm.delivery import Outbox
from klarm.incidents import subject_of
from klarm.journal import read_commands
from klarm.journal.file import FileJournal
from klarm.journal.records import Started
from klarm.types import Event

pytestmark = pytest.mark.usefixtures("one_detector")

NAN = float("nan")
WARNING = 0.9  # four standard deviations above what the run had before


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep tables from being wrapped."""
    monkeypatch.setenv("COLUMNS", "200")


def channel_section(*names: str) -> dict[str, dict[str, str]]:
    """Return the settings of channels that nothing is sent to."""
    return {name: {"type": "webhook", "url": "http://127.0.0.1:9"} for name in names}


def record_run(
    run: str = "a", *channels: str, value: float = NAN, steps: int = 3, deliver: str = "elsewhere"
) -> None:
    """Record a run with an incident that is critical, or with a value that makes it a warning."""
    klarm.init(
        run,
        console=False,
        deliver=deliver,
        channels=channel_section(*channels),
        kl_explosion={"confirm_steps": 1, "resolve_after": 1000},
    )
    for step in range(100):
        klarm.log({"kl": 0.4 + 0.2 * (step % 2)}, step)
    for step in range(100, 100 + steps):
        klarm.log({"kl": value}, step)
    klarm.finish()


def test_a_test_alert_reports_the_answer_of_each_service(server: Server) -> None:
    """The exit code is 1 if one failed. The message is marked as a test and has a time."""
    server.answers = [(200, {}), (404, {})]
    channels = f"one={server.url},two={server.url}"
    before = time.time()
    done = run_klarm("test-alert", channels=channels)
    assert done.returncode == 1
    assert done.stdout == "one: delivered (thread t1)\ntwo: not delivered: HTTP 404\n"
    assert [message["test"] for message in server.messages] == [True, True]
    assert all(before <= message["time"] <= time.time() for message in server.messages)


def test_a_test_alert_can_go_to_one_named_channel(server: Server) -> None:
    """A wrong name is an error that names the right ones."""
    channels = f"one={server.url}/1,two={server.url}/2"
    done = run_klarm("test-alert", "two", channels=channels)
    assert (done.returncode, done.stdout) == (0, "two: delivered (thread t1)\n")
    assert [message["path"] for message in server.messages] == ["/2"]
    done = run_klarm("test-alert", "too", channels=channels)
    assert done.returncode == 2
    assert "there is no channel too; did you mean two?" in done.stderr


def test_a_test_alert_needs_only_the_secrets_of_the_named_channel(server: Server) -> None:
    """The other channels are not created."""
    Path("klarm.yaml").write_text(
        "channels:\n"
        "  slack: {webhook_url: {env: NOT_HERE}}\n"
        f"  mine: {{type: webhook, url: '{server.url}/mine'}}\n"
    )
    done = run_klarm("test-alert", "mine")
    assert (done.returncode, done.stdout) == (0, "mine: delivered\n")
    assert [message["path"] for message in server.messages] == ["/mine"]
    done = run_klarm("test-alert", "mien")
    assert "there is no channel mien; did you mean mine?" in done.stderr
    done = run_klarm("test-alert")
    assert done.returncode != 0
    assert "NOT_HERE" in done.stderr


@pytest.mark.parametrize("arguments", [["slack"], []])
def test_a_test_alert_to_a_disabled_channel_is_an_error(arguments: list[str]) -> None:
    """It is configured, but would get no messages."""
    Path("klarm.yaml").write_text("channels: {slack: {enabled: false}}")
    done = run_klarm("test-alert", *arguments)
    assert done.returncode == 2
    assert "slack is switched off (enabled: false)" in done.stderr


@pytest.mark.parametrize("command", [["test-alert"], ["deliver", "."]])
def test_without_a_channel_a_test_alert_is_an_error(command: list[str]) -> None:
    """The exit code is not 0."""
    done = run_klarm(*command)
    assert done.returncode == 2
    assert "no channel is configured" in done.stderr


def test_deliver_sends_what_is_pending_of_every_run_or_of_one(server: Server) -> None:
    """Each is sent once."""
    record_run("a")
    record_run("b")
    channels = f"hook={server.url}"
    done = run_klarm("deliver", "klarm_runs", "--run", "b", channels=channels)
    assert (done.returncode, done.stdout) == (0, "b: sent 1 to hook\n")
    done = run_klarm("deliver", "klarm_runs", channels=channels)
    assert (done.returncode, done.stdout) == (0, "a: sent 1 to hook\nb: nothing pending\n")
    assert [message["run"] for message in server.messages] == ["b", "a"]


def test_runs_with_nothing_pending_are_one_line(server: Server) -> None:
    """A cron job mails the output every few minutes, for a folder of many runs."""
    for run in "abc":
        record_run(run)
    channels = f"hook={server.url}"
    run_klarm("deliver", "klarm_runs/a", channels=channels)
    run_klarm("deliver", "klarm_runs/c", channels=channels)
    done = run_klarm("deliver", "klarm_runs", channels=channels)
    assert (done.returncode, done.stdout) == (0, "b: sent 1 to hook\n2 runs have nothing pending\n")


def test_deliver_fails_if_something_is_still_pending(server: Server) -> None:
    """A later call sends the message."""
    record_run()
    server.answers = [(500, {})]
    arguments = ("deliver", "klarm_runs/a", "--timeout", "0.1")
    done = run_klarm(*arguments, channels=f"hook={server.url}")
    assert (done.returncode, done.stdout) == (1, "a: 1 pending for hook\n")
    assert done.stderr == "klarm: hook: delivery failed (HTTP 500); retrying for 0.1 s.\n"
    assert run_klarm("deliver", "klarm_runs/a", channels=f"hook={server.url}").returncode == 0


def test_deliver_reports_what_was_sent_and_what_is_pending_per_channel(server: Server) -> None:
    """It also reports what a silence holds back, which is not a failure."""
    record_run("a")
    record_run("b", value=WARNING, steps=1)
    run_klarm("silence", "kl", "--for", "2h", "--run", "b")
    nobody = "http://127.0.0.1:9"
    channels = f"one={server.url},two={nobody}"
    done = run_klarm("deliver", "klarm_runs", "--timeout", "1", channels=channels)
    assert done.returncode == 1
    assert done.stdout == (
        "a: sent 1 to one; 1 pending for two\n"
        "b: 1 held back from one until the silence ends; "
        "1 held back from two until the silence ends\n"
    )


def test_an_unreachable_channel_is_tried_once_for_each_further_run(server: Server) -> None:
    """Otherwise each run in a folder would take the whole timeout."""
    for run in "abc":
        record_run(run)
    server.answers = [(500, {})] * 100
    arguments = ("deliver", "klarm_runs", "--timeout", "2.5")
    done = run_klarm(*arguments, channels=f"hook={server.url}")
    assert done.returncode == 1
    assert done.stdout == "".join(f"{run}: 1 pending for hook\n" for run in "abc")
    tried = Counter(message["run"] for message in server.messages)
    assert tried["a"] > 1
    assert (tried["b"], tried["c"]) == (1, 1)
    assert done.stderr.splitlines() == [
        "klarm: hook: delivery failed (HTTP 500); retrying for 2.5 s.",
        "klarm: hook: delivery failed (HTTP 500); not retrying now.",
    ]


def test_a_channel_that_works_again_gets_the_messages_of_further_runs(server: Server) -> None:
    """It gets all pending messages, with retries as before."""
    for run in "abc":
        record_run(run)
    server.answers = [(500, {}), (200, {}), (500, {})]
    arguments = ("deliver", "klarm_runs", "--timeout", "0.1")
    done = run_klarm(*arguments, channels=f"hook={server.url}")
    assert done.stdout == ("a: 1 pending for hook\nb: sent 1 to hook\nc: 1 pending for hook\n")
    assert "not retrying now" not in done.stderr


def test_a_run_that_cannot_be_delivered_does_not_block_the_others(server: Server) -> None:
    """Its journal is unreadable, which is reported; the exit code is 1."""
    record_run("a")
    record_run("b")
    Path("klarm_runs/a/journal.jsonl").write_text("garbage\n")
    done = run_klarm("deliver", "klarm_runs", channels=f"hook={server.url}")
    assert (done.returncode, done.stdout) == (1, "b: sent 1 to hook\n")
    assert "does not begin like a journal" in done.stderr


def test_deliver_fails_if_a_channel_rejects_and_again_retries(
    server: Server,
) -> None:
    """Only --again resends rejected messages immediately; until then, the exit code is 1."""
    record_run()
    server.answers = [(401, {})]
    channels = f"hook={server.url}"
    done = run_klarm("deliver", "klarm_runs/a", channels=channels)
    assert (done.returncode, done.stdout) == (1, "a: hook rejected 1; --again sends it\n")
    assert "hook: message rejected (HTTP 401)" in done.stderr
    done = run_klarm("deliver", "klarm_runs/a", channels=channels)
    assert (done.returncode, done.stdout) == (1, "a: hook rejected 1; --again sends it\n")
    done = run_klarm("deliver", "klarm_runs/a", "--again", channels=channels)
    assert (done.returncode, done.stdout) == (0, "a: sent 1 to hook\n")


def test_incidents_shows_who_was_notified_of_what(server: Server) -> None:
    """It shows the latest run, unless one is named by name or folder."""
    record_run("a")
    record_run("b", value=WARNING)
    run_klarm("deliver", "klarm_runs/a", channels=f"hook={server.url}")
    run_klarm("ack", "1", "--run", "a", "--by", "ada")
    shown = run_klarm("incidents", "klarm_runs/a").stdout
    assert shown == run_klarm("incidents", "a").stdout
    words = shown.split()
    assert words[:2] == ["run", "a"]
    for word in ("critical", "unresolved", "ended", "100–", "kl_explosion", "hook", "ada"):
        assert word in words
    latest = run_klarm("incidents").stdout.split()
    assert latest[:2] == ["run", "b"]
    assert "hook" not in latest
    assert "silenced" not in latest
    run_klarm("silence", "kl", "--for", "2h", "--even-critical")
    assert "silenced" in run_klarm("incidents").stdout.split()


def test_incidents_prints_no_remark_for_a_run_without_channels() -> None:
    """Most users have no channel at first."""
    record_run()
    assert run_klarm("incidents").stderr == ""


def test_incidents_shows_which_channels_of_the_run_are_pending(server: Server) -> None:
    """The configuration here may have lost them; each person who acknowledged it is shown once."""
    record_run("a", "one", "two")
    run_klarm("deliver", "klarm_runs", channels=f"one={server.url}")
    for _ in range(2):
        run_klarm("ack", "1", "--by", "ada[/]")
    done = run_klarm("incidents")
    shown = " ".join(done.stdout.split())
    assert "one, two (pending)" in shown
    assert shown.count("ada[/]") == 1
    assert done.stderr == ""
    assert "two pending" in " ".join(run_klarm("show", "a", "1").stdout.split())


@pytest.mark.parametrize("channels", [(), ("other",)])
def test_a_channel_that_the_run_did_not_have_is_never_pending(channels: tuple[str, ...]) -> None:
    """It is in the configuration of today, but the run was not to notify it."""
    record_run("a", *channels, deliver="here" if not channels else "elsewhere")
    Path("klarm.yaml").write_text(json.dumps({"channels": channel_section("hook")}))
    shown = run_klarm("incidents")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "hook" not in shown.stdout
    assert shown.stdout.count("pending") == len(channels)
    known = json.loads(run_klarm("incidents", "--format", "json").stdout)["channels"]
    assert [(one["channel"], one["configured"]) for one in known] == [(c, True) for c in channels]
    assert "hook" not in run_klarm("show", "a", "1").stdout
    assert "hook" not in run_klarm("ack", "1").stdout


def test_the_channels_of_the_last_start_count() -> None:
    """A resumed run may have other channels, which are also notified of earlier incidents."""
    record_run("a", "before")
    record_run("a", "after", steps=0)
    shown = run_klarm("incidents").stdout
    assert "after (pending)" in shown
    assert "before" not in shown


def test_a_run_that_leaves_its_channels_to_others_has_those_configured_here() -> None:
    """A training node may know nothing but `deliver: elsewhere`."""
    record_run()
    done = run_klarm("incidents", channels="one=http://127.0.0.1:9")
    assert "one (pending)" in done.stdout
    Path("klarm.yaml").write_text("channels: {slack: {webhook_url: {env: NOT_HERE}}}")
    done = run_klarm("incidents")
    assert "critical" in done.stdout
    assert "NOT_HERE" in done.stderr
    assert "pending notifications are not shown" in done.stderr


def test_a_channel_that_only_deliver_knew_is_pending_if_it_is_configured_here(
    server: Server,
) -> None:
    """`klarm deliver` told it of the opening, so it is also told of the end."""
    record_incidents(OPENED)
    channels = f"hook={server.url}"
    run_klarm("deliver", "klarm_runs", channels=channels)
    record_incidents(RESOLVED)
    assert "hook (more pending)" in run_klarm("incidents", channels=channels).stdout
    assert "pending" not in run_klarm("incidents").stdout


@pytest.mark.parametrize(
    ("route", "owed"),
    [
        ({}, True),
        ({"severity": "critical"}, False),
        ({"signals": "[reward]"}, False),
        ({"runs": "[b*]"}, False),
        ({"enabled": "false"}, False),
    ],
)
def test_incidents_shows_nothing_pending_that_a_channel_does_not_take(
    route: dict[str, str], owed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The severity, signals and runs that the channel had in the run decide."""
    settings = {"type": "webhook", "url": "http://127.0.0.1:9", **route}
    for name, value in settings.items():
        monkeypatch.setenv(f"KLARM_CHANNELS__HOOK__{name.upper()}", value)
    record_run(value=WARNING, steps=1)
    for name in settings:
        monkeypatch.delenv(f"KLARM_CHANNELS__HOOK__{name.upper()}")
    done = run_klarm("incidents")
    assert done.returncode == 0
    assert ("hook (pending)" in " ".join(done.stdout.split())) == owed


def test_what_is_pending_is_shown_without_the_secrets_of_channels() -> None:
    """The secrets may be missing on the machine of the user."""
    Path("klarm.yaml").write_text("channels: {slack: {webhook_url: {env: NOT_HERE}}}")
    record_run()
    done = run_klarm("incidents")
    assert "slack (pending)" in done.stdout
    assert done.stderr == ""


def test_a_damaged_channel_in_a_journal_does_not_hide_the_others() -> None:
    """Settings of a later version, or of a file that somebody edited."""
    journal = FileJournal(Path("klarm_runs/a"), print)
    odd = {
        "odd": 5,
        "nameless": {"type": 7, "severity": "fatal", "signals": 3, "runs": None, "enabled": 1},
        "pulse": {"type": "heartbeat"},
        "mine": {"type": "of_a_package_that_is_not_here"},
    }
    journal.record(Started("a", 1000.0, "0", "host", {"channels": odd}))
    journal.record(OPENED)
    journal.close(10.0)
    done = run_klarm("incidents")
    assert " nameless (pending), mine (pending) " in " ".join(done.stdout.split())
    assert done.stderr == ""


def test_incidents_shows_the_silences_in_force() -> None:
    """They are shown even without incidents; what they hold back is not shown as pending."""
    record_run("a", "hook", value=WARNING, steps=1)
    run_klarm("silence", "kl", "--for", "200steps", "--by", "ada")
    run_klarm("silence", "reward", "--for", "2h", "--by", "bob", "--even-critical")
    shown = run_klarm("incidents").stdout
    kl, reward = shown.splitlines()[-2:]
    assert kl == "kl is silenced until step 300; critical incidents are still sent (by ada)"
    assert reward.startswith("reward is silenced until 20")
    assert reward.endswith(", critical incidents included (by bob)")
    assert "hook (held back)" in " ".join(shown.split())


def record_incidents(*events: Event, channels: tuple[str, ...] = ()) -> None:
    """Record a run with nothing but events."""
    journal = FileJournal(Path("klarm_runs/a"), print)
    config = {"channels": channel_section(*channels)}
    journal.record(Started("a", 1000.0, "0", "host", config))
    for event in events:
        journal.record(event)
    journal.close(10.0)


OPENED = example_event(
    signal="gradient",
    severity="critical",
    step=205,
    started=200,
    detectors=["gradient_norm_spike", "advantage_variance", "rollout_mismatch"],
    reason="it did",
)
RESOLVED = replace(OPENED, event="resolved", step=250, reason="closed")


@pytest.mark.parametrize(
    ("last", "state", "steps"),
    [
        (OPENED, "unresolved when the run ended", "200–"),
        (RESOLVED, "closed", "200–250"),
        (replace(RESOLVED, reason="recovered", level=0.5, before=0.4), "recovered", "200–250"),
        (
            replace(RESOLVED, reason="recovered", level=1.7, before=0.4),
            "resolved (at a new level)",
            "200–250",
        ),
        (replace(RESOLVED, step=150, reason="rolled_back"), "rolled back", "200–"),
    ],
)
def test_incidents_shows_how_an_incident_ended(last: Event, state: str, steps: str) -> None:
    """Going quiet or being rolled back is not shown as resolved."""
    record_incidents(OPENED, last)
    shown = run_klarm("incidents").stdout.splitlines()[2]
    assert f" {state} {steps} " in " ".join(shown.split())


def test_incidents_shows_a_channel_that_rejected_the_opening_as_rejected(server: Server) -> None:
    """The opening was rejected and the end is pending, so nobody there was notified."""
    record_incidents(OPENED)
    server.answers = [(401, {})]
    channels = f"hook={server.url}"
    run_klarm("deliver", "klarm_runs", channels=channels)
    assert " hook (rejected) " in run_klarm("incidents", channels=channels).stdout
    record_incidents(RESOLVED)
    shown = run_klarm("incidents", channels=channels).stdout
    assert " hook (rejected, more pending) " in shown


def test_incidents_breaks_no_name_at_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of detectors, metrics and channels stay whole."""
    monkeypatch.setenv("COLUMNS", "80")
    last = replace(RESOLVED, reason="recovered", level=0.5, before=0.4)
    record_incidents(OPENED, last, channels=("pagerduty", "email"))
    run_klarm("ack", "1", "--by", "ada")
    shown = run_klarm("incidents").stdout
    assert all(len(line) <= 80 for line in shown.splitlines())
    words = shown.replace(",", " ").split()
    names = (*OPENED.detectors, subject_of(OPENED), "pagerduty", "email")
    for word in (*names, "recovered", "critical"):
        assert word in words


def test_incidents_reports_that_there_is_none() -> None:
    """A missing run is reported, too."""
    klarm.init("quiet", console=False)
    klarm.log({"kl": 0.1})
    klarm.finish()
    assert run_klarm("incidents").stdout == "run quiet: no incident\n"
    done = run_klarm("incidents", "quite")
    assert done.returncode == 1
    assert "there is no run quite in klarm_runs; did you mean quiet?" in done.stderr


@pytest.mark.parametrize(
    ("steps", "why"),
    [
        (5, "nothing was watched: no detector knows any of H, KL_div"),
        (0, "no step is recorded yet"),
    ],
)
def test_incidents_never_reports_none_if_nothing_was_watched(steps: int, why: str) -> None:
    """Nobody knows how such a run is, and programs can tell."""
    klarm.init("odd", console=False)
    for _ in range(steps):
        klarm.log({"H": 1.0, "KL_div": 0.1})
    klarm.finish()
    assert run_klarm("incidents").stdout == f"run odd: {why}\n"
    shown = json.loads(run_klarm("incidents", "--format", "json").stdout)
    assert shown["not_watched"].lower() == f"{why}.".lower()


def test_an_incident_of_a_run_that_was_not_watched_is_listed_beside_the_warning() -> None:
    """A crash is an incident that needs no detector."""
    monitor = klarm.init("odd", console=False)
    for _ in range(5):
        klarm.log({"H": 1.0})
    monitor.__exit__(None, RuntimeError("out of memory"), None)
    *_, row, last = run_klarm("incidents").stdout.splitlines()
    assert "crash" in row
    assert last == "Nothing was watched: no detector knows any of H."


def test_an_acknowledgement_is_recorded_for_existing_incidents() -> None:
    """A wrong number is an error that names the right ones."""
    record_run()
    done = run_klarm("ack", "1", "--by", "ada")
    assert done.returncode == 0
    assert re.match(r"run a: incident 1 \(k\w{7}\) is acknowledged by ada\n", done.stdout)
    assert done.stdout.endswith("\nno notification of it is pending\n")
    done = run_klarm("ack", "7")
    assert done.returncode == 1
    assert "run a has no incident 7; it has 1; for another run, name it" in done.stderr
    ((_, command),) = read_commands(Path("klarm_runs/a"))
    ((_, _, opened), *_) = Outbox(Path("klarm_runs/a")).recorded()
    assert (command.command, command.incident, command.by) == ("ack", opened.id, "ada")


@pytest.mark.parametrize(
    ("value", "said", "sent"),
    [(WARNING, "no longer sent to two", 1), (NAN, "critical, so still sent to two", 2)],
)
def test_an_acknowledgement_reports_who_is_still_notified(
    server: Server, value: float, said: str, sent: int
) -> None:
    """Critical incidents still reach people on other channels."""
    record_run("a", "one", "two", value=value, steps=1)
    run_klarm("deliver", "klarm_runs", channels=f"one={server.url}")
    both = f"one={server.url},two={server.url}"
    done = run_klarm("ack", "1", "--by", "ada")
    assert re.fullmatch(
        rf"run a: incident 1 \(k\w{{7}}\) is acknowledged by ada\n{said}\n", done.stdout
    )
    run_klarm("deliver", "klarm_runs", channels=both)
    assert len(server.messages) == sent
    done = run_klarm("ack", "1")
    assert done.stdout.endswith("\nno notification of it is pending\n")


def test_a_live_run_respects_an_acknowledgement(server: Server) -> None:
    """An opening that is still pending is cancelled."""
    record_run(value=WARNING)
    run_klarm("ack", "1")
    done = run_klarm("deliver", "klarm_runs", channels=f"hook={server.url}")
    assert (done.returncode, done.stdout) == (0, "a: nothing pending\n")
    assert server.messages == []


def test_a_silence_counts_from_the_current_step_of_the_run(server: Server) -> None:
    """The output says until when, and that critical incidents are still sent."""
    record_run()
    done = run_klarm("silence", "kl", "--for", "200steps", "--by", "ada")
    assert (done.returncode, done.stdout) == (
        0,
        "run a: kl is silenced until step 302; critical incidents are still sent\n",
    )
    ((_, command),) = read_commands(Path("klarm_runs/a"))
    assert (command.command, command.signal) == ("silence", "kl")
    assert (command.until_step, command.until_time, command.even_critical) == (302, None, False)
    run_klarm("deliver", "klarm_runs", channels=f"hook={server.url}")
    assert len(server.messages) == 1


@pytest.fixture
def time_zone() -> Iterator[None]:
    """Have a time zone of our own, as a process has from its start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "XYZ-3")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("time_zone")
def test_a_silence_reports_its_end_with_the_time_zone() -> None:
    """The reader may be in another time zone than the machine."""
    record_run()
    run_klarm("silence", "kl", "--for", "2h")
    assert " XYZ; critical" in run_klarm("incidents").stdout


def test_a_silence_can_be_ended(server: Server) -> None:
    """Open incidents that it held back are sent then; a later silence works again."""
    record_run(value=WARNING, steps=1)
    channels = f"hook={server.url}"
    run_klarm("silence", "kl", "--for", "2h")
    run_klarm("deliver", "klarm_runs", channels=channels)
    assert server.messages == []
    done = run_klarm("silence", "kl", "--off", "--by", "ada")
    assert done.returncode == 0
    assert done.stdout.startswith("run a: kl is no longer silenced; incidents that were held back")
    assert "silenced" not in run_klarm("incidents").stdout
    run_klarm("deliver", "klarm_runs", channels=channels)
    assert server.received() == [(1, "opened", 100)]
    run_klarm("silence", "reward", "--for", "2h")
    done = run_klarm("silence", "kl", "--off")
    assert done.returncode == 1
    assert "run a: kl is not silenced; silenced: reward" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["kk", "--for", "2h"], "there is no signal kk"),
        (["reword", "--for", "2h"], "did you mean reward?"),
        (["kl", "--for", "2weeks"], "'2weeks' is not a duration; try 200steps, 30min, 2h or 1d"),
        (["kl", "--for", "0h"], "'0h' is not a duration"),
        (["kl"], "give a duration, as in --for 2h, or end a silence with --off"),
        (["kl", "--off", "--for", "2h"], "--off ends all silences of a signal"),
        (["kl", "--off", "--even-critical"], "--off ends all silences of a signal"),
    ],
)
def test_an_invalid_silence_is_refused(arguments: list[str], complaint: str) -> None:
    """The message says what to do."""
    record_run()
    done = run_klarm("silence", *arguments)
    assert done.returncode == 2
    assert complaint in " ".join(done.stderr.split())
    assert not Path("klarm_runs/a/commands.jsonl").exists()


COMMANDS = pytest.mark.parametrize(
    "command", [["incidents"], ["ack", "1"], ["silence", "kl", "--for", "2h"]], ids=lambda c: c[0]
)


@COMMANDS
def test_a_run_is_named_with_the_same_option_everywhere(command: list[str]) -> None:
    """The hint for a missing run names this option."""
    done = run_klarm(*command)
    assert done.returncode == 1
    said = "there is no run in klarm_runs; name one, or its folder, with --run"
    assert said in done.stderr
    record_run("a")
    record_run("b")
    done = run_klarm(*command, "--run", "a")
    assert done.returncode == 0
    assert "run a" in done.stdout


def test_naming_two_runs_is_an_error() -> None:
    """The argument and the option must not name different runs."""
    done = run_klarm("incidents", "a", "--run", "b")
    assert done.returncode == 2
    assert "name the run once: a, or --run b" in done.stderr


@COMMANDS
def test_settings_can_be_read_from_another_file(command: list[str]) -> None:
    """This includes the folder of the runs."""
    Path("elsewhere.yaml").write_text("dir: elsewhere")
    klarm.init("a", config="elsewhere.yaml", console=False)
    klarm.log({"kl": NAN})
    klarm.finish()
    assert run_klarm(*command).returncode != 0
    done = run_klarm(*command, "--config", "elsewhere.yaml")
    assert done.returncode == 0
    assert "run a" in done.stdout


def test_follow_exits_with_1_if_something_could_not_be_delivered(server: Server) -> None:
    """It does so again if nothing is new, because somebody has to know."""
    rows = [f'{{"step": {step}, "kl": {value}}}\n' for step, value in enumerate([0.1, "NaN"])]
    Path("log.jsonl").write_text("".join(rows))
    channels = f"hook={server.url}"
    server.answers = [(404, {})] * 9
    for _ in range(2):
        assert run_klarm("follow", "log.jsonl", "--once", channels=channels).returncode == 1
    server.answers.clear()
    assert run_klarm("deliver", "klarm_runs", "--again", channels=channels).returncode == 0
    assert run_klarm("follow", "log.jsonl", "--once", channels=channels).returncode == 0
