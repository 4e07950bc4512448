"""What breaks around delivery, in processes of their own: every event is sent in the end."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from loopback import Server, environment, run_klarm, run_python
from sent_events import events_of, sent

import klarm
from full_disk import FILL_UP

pytestmark = pytest.mark.usefixtures("one_detector")

RUN = Path("klarm_runs/a")
KILLS = 200

KILLED = """
    import json, os, pathlib, random, signal, sys, time
    import klarm, klarm.cli.group, klarm.delivery.dispatcher
    from klarm.delivery import log as deliveries

    def live(ready):
        monitor = klarm.init(run, console=False, kl_explosion={"resolve_after": 1})
        for step in range(10**9):
            monitor.log({"kl": float("nan") if step % 3 == 0 else 0.1}, step)
            if step == 0:
                os.write(ready, b".")
            time.sleep(0.002)

    def next_start():
        klarm.init(run, console=False)
        klarm.finish(60)

    def deliver():
        klarm.cli.group.klarm.main(["deliver", f"klarm_runs/{run}"], standalone_mode=False)

    def child(work, *arguments):
        pid = os.fork()
        if pid == 0:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            try:
                work(*arguments)
            except SystemExit as end:
                os._exit(end.code)
            os._exit(0)
        return pid

    url = os.environ["LOOPBACK"]
    chance = random.Random(0)
    for number in range(int(sys.argv[1])):
        run = f"r{number}"
        os.environ["LOOPBACK"] = f"{url}/{run}"
        seeing, ready = os.pipe()
        pid = child(live, ready)
        os.read(seeing, 1)
        time.sleep(chance.uniform(0.0, 0.05))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        entries = [e for _, e in deliveries.read(pathlib.Path("klarm_runs") / run)]
        later = child(deliver if number % 2 else next_start)
        _, status = os.waitpid(later, 0)
        recorded = [e.key for e in entries]
        print(json.dumps({"run": run, "pid": pid, "recorded": recorded, "status": status}))
"""


@pytest.fixture(autouse=True)
def nothing_reopens(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every NaN open an incident of its own, so that there is much to send."""
    monkeypatch.setenv("KLARM_INCIDENTS__REOPEN_WITHIN", "0")


def test_killed_at_random_moments_every_event_is_delivered_in_the_end(server: Server) -> None:
    """By the next start or `klarm deliver`; twice only if killed between sending and recording."""
    code = "import sys; sys.argv[1:] = ['" + str(KILLS) + "']" + KILLED.replace("\n    ", "\n")
    done = run_python(code, f"hook={server.url}")
    assert (done.returncode, done.stderr) == (0, "")
    events = twice = unrecorded = 0
    for line in done.stdout.splitlines():
        result = json.loads(line)
        folder = Path("klarm_runs") / result["run"]
        assert result["status"] == 0
        assert sorted(sent(folder)) == sorted(events_of(folder))
        received = [
            (message["pid"] == result["pid"], (m["id"], m["event"], m["step"], m["severity"]))
            for message in server.messages
            if (m := message)["path"] == f"/{result['run']}"
        ]
        before = [key for killed, key in received if killed]
        after = [key for killed, key in received if not killed]
        assert len(before) == len(set(before))
        assert len(after) == len(set(after))
        in_between = set(before) - {tuple(key) for key in result["recorded"]}
        assert set(before) & set(after) <= in_between
        assert len(in_between) <= 1
        assert {key[0] for key in events_of(folder)} == {key[0] for _, key in received}
        events += len(events_of(folder))
        unrecorded += len(in_between)
        twice += len(set(before) & set(after))
    print(f"{KILLS} kills, {events} events: {unrecorded} sent and unrecorded, {twice} sent twice")
    assert events > KILLS


@pytest.mark.parametrize("ending", ["sys.exit(3)", "raise ValueError('failed')", "os._exit(4)"])
def test_a_nan_and_the_end_right_after_it_is_delivered_twenty_times_of_twenty(
    server: Server, ending: str
) -> None:
    """While the process exits; after os._exit, which leaves no time, by `klarm deliver`."""
    done = run_python(
        f"""
        import os, sys, klarm, klarm.delivery.dispatcher
        for number in range(20):
            if (child := os.fork()) == 0:
                break
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        if child:
            os._exit(0 if sys.stdout.flush() is None else 1)
        klarm.init(f"r{{number}}", console=False, loss_nan={{"enabled": True}})
        klarm.log({{"loss": 1.0}}, 0)
        klarm.log({{"loss": float("nan")}}, 1)
        sys.stdout = None
        {ending}
        """,
        f"hook={server.url}",
    )
    assert done.stdout.split() == [{"s": "3", "r": "1", "o": "4"}[ending[0]]] * 20
    runs = sorted(Path("klarm_runs").iterdir())
    unrecorded = [run.name for run in runs if not sent(run)]
    if "_exit" in ending:
        delivered = run_klarm("deliver", "klarm_runs", channels=f"hook={server.url}")
        assert delivered.returncode == 0
    else:
        assert unrecorded == []
    notified = [message["run"] for message in server.messages if message["signal"] == "loss"]
    assert set(notified) == {f"r{number}" for number in range(20)}
    twice = {run for run in notified if notified.count(run) > 1}
    assert twice <= set(unrecorded)  # it ended between sending and recording
    assert all(sent(run) == events_of(run) for run in runs)


def test_a_hanging_service_holds_neither_training_nor_the_end(server: Server) -> None:
    """A channel that waits for an hour: what is owed is sent by the next start."""
    server.hangs = True
    done = run_python(
        """
        import klarm
        monitor = klarm.init("a")
        (delivery,) = monitor.on_event
        delivery._workers[0]._sender._route.channel.timeout_seconds = 3600
        for step in range(2000):
            monitor.log({"kl": float("nan") if step % 30 == 0 else 0.1}, step)
        monitor.finish(timeout=0.5)
        print("finished")
        """,
        f"hook={server.url}",
    )
    assert (done.returncode, done.stdout) == (0, "finished\n")
    assert len(server.messages) == 1
    assert "hook: some messages were not delivered yet" in done.stderr
    assert f"klarm deliver {RUN}" in done.stderr
    server.hangs = False
    server.let_go.set()
    server.messages.clear()
    assert run_klarm("deliver", str(RUN), channels=f"hook={server.url}").returncode == 0
    assert sorted(sent(RUN)) == sorted(events_of(RUN))
    assert len(server.messages) == len({key[0] for key in events_of(RUN)}) == 67


def test_a_hanging_service_does_not_keep_another_from_being_notified(server: Server) -> None:
    """Each has a thread of its own."""
    done = run_python(
        """
        import klarm
        klarm.init("a")
        klarm.log({"kl": float("nan")}, 0)
        klarm.finish(timeout=2)
        """,
        f"first={server.url}/hangs,second={server.url}/works",
    )
    assert done.returncode == 0
    assert server.received("/works") == [(1, "opened", 0)]
    assert sent(RUN, "second") == events_of(RUN)
    assert sent(RUN, "first") == []


def test_a_forked_process_tells_nobody(server: Server) -> None:
    """Neither by itself nor when it is handed an event."""
    done = run_python(
        """
        import os, klarm
        monitor = klarm.init("a", console=False)
        (deliver,) = monitor.on_event
        if os.fork() == 0:
            other = klarm.init("b", console=False, deliver="elsewhere")
            other.on_event.append(deliver)
            other.log({"kl": float("nan")}, 0)
            print(deliver.finish(5.0), deliver._threads)
        else:
            os.wait()
            monitor.log({"kl": float("nan")}, 0)
        """,
        f"hook={server.url}",
    )
    assert (done.returncode, done.stdout) == (0, "False {}\n")
    assert [message["run"] for message in server.messages] == ["a"]


def test_a_child_left_behind_does_not_keep_a_run_from_being_delivered(server: Server) -> None:
    """The parent is killed while a forked worker lives on."""
    done = run_python(
        """
        import os, signal, time, klarm
        monitor = klarm.init("a", console=False)
        monitor.log({"kl": float("nan")}, 0)
        while any(worker.pending for worker in monitor.on_event[0]._workers):
            time.sleep(0.01)
        if os.fork() == 0:
            os.close(0), os.close(1), os.close(2)
            time.sleep(20)
            os._exit(0)
        os.kill(os.getpid(), signal.SIGKILL)
        """,
        f"hook={server.url}",
    )
    assert done.returncode == -signal.SIGKILL
    done = run_klarm("deliver", str(RUN), channels=f"hook={server.url}")
    assert (done.returncode, done.stdout) == (0, "a: nothing pending\n")
    assert len(server.messages) == 1


def test_while_a_run_delivers_by_itself_klarm_deliver_leaves_it_alone(server: Server) -> None:
    """It says so, and that is no failure."""
    with live_run(server) as process:
        done = run_klarm("deliver", "klarm_runs", channels=f"hook={server.url}")
        assert (done.returncode, done.stdout) == (0, "a: another process delivers it\n")
        process.kill()
    assert len(server.messages) == 1


def test_a_run_without_a_network_is_delivered_from_elsewhere_while_it_lives(
    server: Server,
) -> None:
    """With `deliver: elsewhere`, and once only."""
    with live_run(server, deliver="elsewhere") as process:
        assert server.messages == []
        for expected in ("sent 1 to hook", "nothing pending"):
            done = run_klarm("deliver", "klarm_runs", channels=f"hook={server.url}")
            assert (done.returncode, done.stdout) == (0, f"a: {expected}\n")
        process.kill()
    assert server.received() == [(1, "opened", 0)]


def test_the_messages_of_a_script_that_changes_its_directory_are_complete(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal is where it was when the run began."""
    klarm.init("a", console=False, channels={"hook": {"type": "webhook", "url": server.url}})
    Path("other").mkdir()
    monkeypatch.chdir("other")
    for step in range(30):
        klarm.log({"kl": 0.1}, step)
    klarm.log({"kl": float("nan")}, 30)
    klarm.finish()
    assert len(server.messages[0]["curve"]) == 31


def live_run(server: Server, **settings: str) -> subprocess.Popen[str]:
    """Start a run that has notified people of an incident, and goes on."""
    code = f"""
import loopback, klarm, time
monitor = klarm.init("a", **{settings})
monitor.log({{"kl": float("nan")}}, 0)
for delivery in monitor.on_event:
    while any(worker.pending for worker in delivery._workers):
        time.sleep(0.01)
print("ready", flush=True)
time.sleep(60)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        env=environment(f"hook={server.url}"),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def test_two_klarm_deliver_at_once_send_everything_once(server: Server) -> None:
    """One of them finds that the other is at it."""
    run_python(
        """
        import klarm
        klarm.init("a", deliver="elsewhere", kl_explosion={"resolve_after": 1})
        for step in range(300):
            klarm.log({"kl": float("nan") if step % 3 == 0 else 0.1}, step)
        """,
        f"hook={server.url}",
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "loopback", "deliver", "klarm_runs"],
            env=environment(f"hook={server.url}"),
            stdout=subprocess.DEVNULL,
        )
        for _ in range(4)
    ]
    assert [process.wait(60) for process in processes] == [0] * 4
    assert len(server.messages) == 100
    assert len(set(server.received())) == 100
    assert sorted(sent(RUN)) == sorted(events_of(RUN))


def test_people_are_notified_of_a_run_that_cannot_be_recorded(server: Server) -> None:
    """The directory is a file."""
    Path("klarm_runs").write_text("not a directory")
    done = run_python(
        """
        import klarm
        klarm.init("a")
        klarm.log({"kl": float("nan")}, 0)
        """,
        f"hook={server.url}",
    )
    assert done.returncode == 0
    assert server.received() == [(1, "opened", 0)]


def test_a_full_disk_does_not_keep_people_from_being_notified(server: Server) -> None:
    """The events are in memory."""
    done = run_python(
        f"""
        import klarm
        klarm.init("a")
        {FILL_UP}
        klarm.log({{"kl": float("nan")}}, 0)
        """,
        f"hook={server.url}",
    )
    assert done.returncode == 0
    assert server.received() == [(1, "opened", 0)]


def test_a_second_process_of_the_same_run_tells_nobody(server: Server) -> None:
    """Rank 1 of a distributed run that forgot to ask for its rank."""
    with live_run(server) as process:
        run_python(
            """
            import klarm
            klarm.init("a")
            klarm.log({"kl": float("nan")}, 0)
            """,
            f"hook={server.url}",
        )
        assert len(server.messages) == 1
        process.send_signal(signal.SIGKILL)


def test_a_failure_inside_a_channel_does_not_reach_training(server: Server) -> None:
    """The thread says what happened, without what may be secret, and goes on."""
    done = run_python(
        """
        import klarm, loopback
        def send(self, message, earlier):
            raise RuntimeError("https://secret")
        loopback.LoopbackChannel.send = send
        klarm.init("a")
        klarm.log({"kl": float("nan")}, 0)
        klarm.finish(0.2)
        print("trained")
        """,
        f"hook={server.url}",
    )
    assert (done.returncode, done.stdout) == (0, "trained\n")
    assert done.stderr.count("hook: delivery failed (RuntimeError inside klarm)") == 1
    assert "secret" not in done.stderr


def test_an_incident_that_was_rolled_back_is_sent_as_over_and_then_again(
    server: Server,
) -> None:
    """By a process that takes the run up at an earlier step: numbers are never used twice."""
    code = """
        import klarm
        klarm.init("a")
        for step in range({first}, {last}):
            klarm.log({{"kl": float("nan") if step == 10 else 0.1}}, step)
    """
    for first, last in ((0, 12), (5, 12), (5, 12)):
        run_python(code.format(first=first, last=last), f"hook={server.url}")
    # The end of the run may be in one message with the opening.
    assert [received[:2] for received in server.received()] == [
        (1, "opened"),
        (1, "resolved"),
        (2, "opened"),
        (2, "resolved"),
        (3, "opened"),
    ]
