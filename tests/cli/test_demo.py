"""`klarm demo` in various terminals: its text is right and stays visible."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import time

import pytest

from cli.commands import run_klarm, run_on_terminal
from klarm.cli.demo import RECORDINGS, WatchedRecording, read_recording
from klarm.config import load
from klarm.incidents import is_alarm
from klarm.wording import event_text

COMMAND = [sys.executable, "-m", "klarm", "demo"]
_STYLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def interrupted_after(text: str, **variables: str) -> str:
    """Play it on a pseudo-terminal, press Ctrl-C once it has written something; return all."""
    master, slave = pty.openpty()
    with subprocess.Popen(
        COMMAND, stdin=slave, stdout=slave, stderr=slave, env={**os.environ, **variables}
    ) as process:
        os.close(slave)
        shown = b""
        while text not in shown.decode(errors="ignore"):
            shown += os.read(master, 65536)
        assert process.poll() is None  # it is still playing
        process.send_signal(signal.SIGINT)
        try:
            while piece := os.read(master, 65536):
                shown += piece
        except OSError:  # the terminal's other end is closed
            pass
    os.close(master)
    assert process.returncode == 130
    return shown.decode().replace("\r\n", "\n")


def frames_of(*arguments: str, columns: int = 80, lines: int = 24) -> list[list[str]]:
    """Return the lines of every frame of the fast demo; the last has what follows it, too."""
    code, shown = run_on_terminal("demo", *arguments, "--fast", columns=columns, lines=lines)
    assert code == 0
    frames = re.split(r"(?:\x1b\[1A\x1b\[2K|\r\x1b\[2K)+", shown)[1:]
    return [_STYLE.sub("", frame).rstrip("\n").splitlines() for frame in frames]


def events_on_kl(*arguments: str) -> WatchedRecording:
    mode = "frozen" if "--frozen" in arguments else "rolling"
    changes = {"kl_explosion": {"baseline_mode": mode, "enabled": True}}
    return WatchedRecording(arguments[0], load(overrides=changes, recorded={}))


@pytest.mark.parametrize(
    ("arguments", "columns", "lines"),
    [(["exploding"], 80, 24), (["drifting", "--frozen"], 120, 40)],
)
def test_the_incident_is_on_the_screen_at_the_end_in_whole_words(
    arguments: list[str], columns: int, lines: int
) -> None:
    """There is also room for the suggested commands and the prompt."""
    *_, end = frames_of(*arguments, columns=columns, lines=lines)
    for drawn_with in "●░═━":  # the curve, its baseline, the thresholds, the incident
        assert drawn_with in "".join(end)
    in_sight = end[-(lines - 1) :]
    top = next(at for at, line in enumerate(in_sight) if line.startswith("╭"))
    assert "klarm incident" in in_sight[top]
    assert any("→ " in line for line in in_sight)
    assert any("Likely cause: " in line for line in in_sight)
    assert in_sight[-1].startswith("  klarm.log(")
    on_kl = events_on_kl(*arguments).on_kl()
    alarm = next(event for event in reversed(on_kl) if is_alarm(event))
    assert " ".join(words(alarm.message)) in " ".join(words("\n".join(in_sight)))
    box_to_summary = "\n".join(in_sight[top:]).partition(" steps, ")[0].rpartition("\n")[0]
    remaining = iter(words(f"{event_text(alarm)}\n{event_text(on_kl[-1])}"))
    shown = words(box_to_summary)
    assert [word for word in shown if word not in remaining] == []  # the box may leave some out


def words(text: str) -> list[str]:
    """Return the words of an incident's text, as it is in a box and in plain lines."""
    text = re.sub("[╭╮╰╯│─]", " ", text).replace("->", "→").lower()
    return [word.rstrip(":") for word in text.split()]


@pytest.mark.parametrize("lines", [20, 24])
def test_every_frame_fits_the_terminal(lines: int) -> None:
    """Nothing is cut off at the bottom or at the right. The axis and its labels stay in place."""
    *frames, _ = frames_of("exploding", lines=lines)
    assert len(frames) > 20
    for rows in frames:
        assert len(rows) <= lines
        assert max(map(len, rows)) <= 80
        axis = next(at for at, row in enumerate(rows) if "└" in row)
        assert rows[axis + 1].split() == ["step", "1", "300"]
        assert not any(row.strip() == "..." for row in rows)
    tops = {row.partition("│")[0].strip() for _, row, *_ in frames}
    assert len(tops) == 1


def test_ctrl_c_leaves_the_terminal_as_it_was() -> None:
    """The cursor is hidden while it plays, and nothing is printed but what was drawn."""
    shown = interrupted_after("step 1 ", TERM="xterm-256color")
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")
    assert "Traceback" not in shown


def test_plain_lines_appear_while_it_plays_on_a_dumb_terminal() -> None:
    """With TERM=dumb there are no control codes, and lines appear immediately."""
    shown = interrupted_after("step  25  kl ", TERM="dumb")
    assert "\x1b" not in shown
    assert "step 300" not in shown


def test_no_word_is_broken_in_plain_lines() -> None:
    """Lines are wrapped between words, at the width of the terminal."""
    code, shown = run_on_terminal("demo", "--fast", TERM="dumb")
    assert code == 0
    assert "\x1b" not in shown
    assert "klarm INCIDENT 2 on kl opened, warning" in shown
    report, _, to_copy = shown.partition("What to type next:")
    assert max(len(line) for line in report.splitlines()) <= 80
    whole = played("--fast")
    assert report.split() == whole.partition("What to type next:")[0].split()
    # Commands are to be copied, so they are not wrapped.
    assert all(len(line) <= 80 or " replay " in line for line in to_copy.splitlines())


@pytest.mark.parametrize("arguments", [["exploding"], ["drifting", "--frozen"], ["drifting"]])
def test_the_closing_line_names_numbers_of_the_recording(arguments: list[str]) -> None:
    """These are KL at the opening, the highest KL before, and the highest after."""
    shown = played(*arguments)
    closing = re.search(
        r"^Incident \d+ opened at step (\d+), at KL (\S+) \(highest before step (\d+): (\S+)\)\."
        r".* (?:reached|up to) (\S+) (?:at |\()step (\d+)",
        shown,
        re.M,
    )
    assert closing is not None
    began = r"on kl opened, .*\n  (?:Since|In alert since) step (\d+)"
    since = re.search(began, shown)
    assert since is not None
    kl = {row["step"]: row["kl"] for row in read_recording(arguments[0])}
    opened, started = int(closing[1]), int(since[1])
    assert closing[2] == f"{kl[opened]:.3g}"
    assert int(closing[3]) == started
    assert closing[4] == f"{max(kl[step] for step in kl if step < started):.3g}"
    highest = max((kl[step], step) for step in kl if step >= opened)
    assert (closing[5], int(closing[6])) == (f"{highest[0]:.3g}", highest[1])


def played(*arguments: str) -> str:
    """Return what is printed where nothing can be drawn."""
    done = run_klarm("demo", *arguments)
    assert done.returncode == 0
    return done.stdout


def test_the_demo_explains_the_spikes_after_kl_has_settled() -> None:
    """They are in the recording, and nobody is notified of them: the incident is still open."""
    shown = played()
    settled = re.search(r"on kl settled at step (\d+)", shown)
    assert settled is not None
    later = {row["step"]: row["kl"] for row in read_recording("exploding")}
    later = {step: kl for step, kl in later.items() if step > int(settled[1])}
    highest = max(later, key=lambda step: later[step])
    middle = sorted(later.values())[len(later) // 2]
    assert (
        f"Still open: after step {settled[1]}, median KL {middle:.2g}, with spikes up to "
        f"{later[highest]:.3g} (step {highest})." in shown
    )
    assert "spikes" not in played("drifting")


def test_the_demo_of_a_healthy_run_says_once_that_there_is_no_incident() -> None:
    """It has no alarm to explain."""
    assert "\n300 steps, no incident\n" in played("healthy")


def test_the_suggested_replay_can_be_copied() -> None:
    """It names the recording that was played."""
    (line,) = (line for line in played("healthy").splitlines() if "klarm replay" in line)
    assert "300 rows replayed: no incident" in run_klarm(*line.split()[1:]).stdout


def test_the_title_agrees_with_the_recording() -> None:
    """It names the step at which the learning rate jumps ×100."""
    rate = {row["step"]: row["learning_rate"] for row in read_recording("exploding")}
    assert RECORDINGS["exploding"].endswith("until the learning rate jumps ×100 at step 152")
    jumps = [step for step in list(rate)[1:] if rate[step] > 50 * rate[step - 1] > 0]
    assert jumps == [152]
    assert 90 < rate[jumps[0]] / rate[jumps[0] - 1] < 110


def test_fast_never_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither where it draws nor in plain lines."""
    monkeypatch.setattr(time, "sleep", lambda _: pytest.fail("it waits"))
    assert 20 < len(frames_of("exploding")) < 60  # otherwise, one per step
    assert "step 300" in played("--fast")


def test_fast_cannot_be_combined_with_the_page() -> None:
    """The error is one line."""
    done = run_klarm("demo", "--page", "--fast")
    assert done.returncode == 2
    assert "--page takes no --fast" in done.stderr
