"""The end of a run whose messages are not all delivered: what it says, and who sends the rest."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from loopback import Server, run_klarm, run_python
from sent_events import events_of, sent

pytestmark = pytest.mark.usefixtures("one_detector")

RUN = Path("klarm_runs/a")


@pytest.fixture(autouse=True)
def nothing_reopens(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every NaN open an incident of its own, so that there is much to send."""
    monkeypatch.setenv("KLARM_INCIDENTS__REOPEN_WITHIN", "0")


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ([5, 6], ""),
        ([5, 6, 7], f"1 event pending: `klarm deliver {RUN}` delivers it"),
        (
            [5, 6, 7, 5],
            f"2 events pending: `klarm deliver {RUN}` delivers them",
        ),  # the run went back
    ],
)
def test_the_end_of_a_run_says_what_others_have_to_send(steps: list[int], said: str) -> None:
    """With `deliver: elsewhere`, once; nothing if there was no event."""
    Path("klarm.yaml").write_text(
        "deliver: elsewhere\nchannels: {hook: {type: webhook, url: 'http://127.0.0.1:9'}}\n"
    )
    done = run_python(
        f"""
        import klarm
        klarm.init("a")
        for row, step in enumerate({steps}):
            klarm.log({{"kl": float("nan") if step == 7 else 0.1 + row / 100}}, step)
        klarm.finish()
        """,
        "",
    )
    assert done.returncode == 0
    assert done.stderr.count("klarm deliver") == bool(said)
    assert said in done.stderr


def test_the_end_of_a_run_does_not_wait_for_a_channel_to_be_mended(server: Server) -> None:
    """Neither that of a run, given an hour, nor that of `klarm deliver`."""
    server.answers = [(401, {})] * 7
    done = run_python(
        """
        import klarm
        klarm.init("a", console=False, kl_explosion={"resolve_after": 1})
        for step in range(30):
            klarm.log({"kl": float("nan") if step % 3 == 0 else 0.1}, step)
        klarm.finish(timeout=3600)
        """,
        f"hook={server.url}",
    )
    assert done.returncode == 0
    assert len(server.messages) == 4  # the end of the first goes along with its opening
    arguments = ("deliver", str(RUN), "--timeout", "3600")
    done = run_klarm(*arguments, channels=f"hook={server.url}")
    assert (done.returncode, len(server.messages)) == (1, 7)
    assert "hook: 3 messages rejected in a row; not retrying now. Fix" in done.stderr
    assert f"`klarm deliver {RUN} --again` sends everything it rejected" in done.stderr


@pytest.mark.parametrize(
    ("answer", "timeout", "advice"),
    [
        (401, 30, ". Once `klarm test-alert` succeeds, this sends them: {} --again"),
        (500, 0.3, " yet. The next start of the run sends them, or: {}"),
    ],
)
def test_the_end_of_a_run_names_the_command_that_sends_what_is_left(
    server: Server, answer: int, timeout: float, advice: str
) -> None:
    """What was refused needs --again; the command said does send it."""
    server.answers = [(answer, {})] * 2  # the end of the run tries once more
    run = f"""
        import klarm
        klarm.init("my run")
        klarm.log({{"kl": float("nan")}}, 0)
        klarm.finish(timeout={timeout})
        """
    said = run_python(run, f"hook={server.url}").stderr
    folder = Path("klarm_runs/my run")
    end = "hook: some messages were not delivered" + advice.format(f"klarm deliver '{folder}'")
    assert end in said
    assert "DIR" not in said
    command = shlex.split(end.partition("klarm deliver ")[2])
    done = run_klarm("deliver", *command, channels=f"hook={server.url}")
    assert (done.returncode, sent(folder)) == (0, events_of(folder))


def test_a_run_that_is_not_recorded_says_that_what_is_left_is_lost(server: Server) -> None:
    """There is nothing for `klarm deliver` to read."""
    Path("klarm_runs").write_text("not a directory")
    server.answers = [(401, {})] * 2
    run = 'import klarm; klarm.init("a"); klarm.log({"kl": float("nan")}, 0); klarm.finish()'
    said = run_python(run, f"hook={server.url}").stderr
    assert "hook: some messages were not delivered, and the run is not recorded" in said
    assert "klarm deliver" not in said


def test_a_channel_that_was_mended_gets_at_the_next_start_what_it_refused(
    server: Server,
) -> None:
    """While the incident is open; a token was wrong, and nobody knew of `klarm deliver --again`."""
    server.answers = [(401, {})] * 2
    first = """
        import klarm
        klarm.init("a", console=False)
        klarm.log({"kl": float("nan")}, 0)
        klarm.finish(timeout=30)
        """
    assert run_python(first, f"hook={server.url}").returncode == 0
    assert sent(RUN) == []
    next_start = 'import klarm; klarm.init("a", console=False); klarm.finish(timeout=30)'
    assert run_python(next_start, f"hook={server.url}").returncode == 0
    assert sent(RUN) == events_of(RUN)
    run_python(next_start, f"hook={server.url}")
    assert len(server.messages) == 3
