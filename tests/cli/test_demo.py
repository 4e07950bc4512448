"""`klarm demo` in various terminals: its text is right and stays visible."""

from __future__ import annotations

import io
import os
import pty
import re
import signal
import subprocess
import sys
import time
from itertools import pairwise

import pytest
from rich.console import Console

from cli.commands import run_klarm, run_on_terminal
from klarm.cli.demo import RECORDINGS, _Player, read_recording
from klarm.config import load
from klarm.incidents import is_alarm
from klarm.wording import event_text

COMMAND = [sys.executable, "-m", "klarm", "demo"]
DECADES = ["100", "10", "1", "0.1", "0.01", "0.001", "0.0001"]
_STYLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def shown_until(text: str, **variables: str) -> str:
    """Play it in a process on a pseudo-terminal until it has written something."""
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
    os.close(master)
    assert process.returncode == 130
    return shown.decode().replace("\r\n", "\n")


def at_the_end(shown: str) -> list[str]:
    """Return the lines that stand below each other once it is over: the last frame, and the rest.

    Frames are drawn over each other: before each, the lines of the one before are erased.
    """
    last = shown.rpartition("\x1b[2K")[2]
    return [line.rstrip() for line in _STYLE.sub("", last).splitlines()]


def player_of(recording: str, mode: str = "rolling") -> _Player:
    """Return a player, with the settings that the command gives it."""
    changes = {"kl_explosion": {"baseline_mode": mode, "enabled": True}}
    return _Player(recording, load(overrides=changes, recorded={}))


def drawn(player: _Player, lines: int, *, fast: bool) -> list[list[str]]:
    """Return the rows of every frame that is drawn on 80 columns."""
    out = io.StringIO()
    screen = Console(file=out, force_terminal=True, width=80, height=lines)
    player.play_live(screen, fast=fast)
    frames = re.split(r"(?:\x1b\[1A\x1b\[2K|\r\x1b\[2K)+", out.getvalue())[1:]
    return [_STYLE.sub("", frame).rstrip("\n").splitlines() for frame in frames]


def curve_of(rows: list[str]) -> list[str]:
    """Return the rows between the title and the axis."""
    return rows[1 : next(at for at, row in enumerate(rows) if "└" in row)]


@pytest.mark.parametrize(
    ("arguments", "columns", "lines"),
    [(["exploding"], 80, 24), (["drifting", "--frozen"], 120, 40)],
)
def test_the_box_is_on_the_screen_at_the_end_and_labels_stand_on_their_rows(
    arguments: list[str], columns: int, lines: int
) -> None:
    """There is also room for the suggested commands and the prompt."""
    code, shown = run_on_terminal("demo", *arguments, "--fast", columns=columns, lines=lines)
    assert code == 0
    for drawn_with in "●░─":  # the curve, its usual band, the thresholds
        assert drawn_with in shown
    spikes = "KL still spikes since then, but each spike is too short for a new report."
    assert (spikes in shown) == (arguments == ["exploding"])
    end = at_the_end(shown)
    # A path that is wider than the terminal goes on in the next line.
    rows = [line[at : at + columns] for line in end for at in range(0, len(line) or 1, columns)]
    in_sight = rows[-(lines - 1) :]
    (top,) = (line for line in in_sight if line.startswith("╭"))
    assert "klarm incident" in top
    assert any(line.startswith("╰") for line in in_sight)
    assert any("→ " in line for line in in_sight)
    assert any("Likely cause: " in line for line in in_sight)
    assert in_sight[-1].startswith("  klarm.log(")
    labels = [line.partition("│")[0].strip() for line in end if "│" in line[:10]]
    assert [label for label in labels if label] == DECADES
    # Evenly spaced, as the scale is.
    at = [row for row, label in enumerate(labels) if label]
    assert len({below - above for above, below in pairwise(at)}) == 1


@pytest.mark.parametrize("lines", [20, 24])
def test_every_frame_fits_the_terminal(lines: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is cut off at the bottom or at the right, and on 24 lines each decade has a label."""
    monkeypatch.setenv("TERM", "xterm-256color")
    frames = drawn(player_of("exploding"), lines, fast=True)
    assert len(frames) > 20
    for rows in frames:
        assert len(rows) <= lines
        assert max(map(len, rows)) <= 80
        labels = [label for row in curve_of(rows) if (label := row.partition("│")[0].strip())]
        every_other = [DECADES[::2]] if lines < 24 else []
        assert labels in [DECADES, *every_other]  # whatever is below it
        assert not any(row.strip() == "..." for row in rows)


def test_plain_lines_appear_while_it_plays_on_a_dumb_terminal() -> None:
    """With TERM=dumb there are no control codes, and lines appear immediately."""
    shown = shown_until("step  25  kl ", TERM="dumb")
    assert "\x1b" not in shown


def test_plain_lines_are_printed_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not all of them at once: at every step that it waits for, its line is there."""
    printed, out = list[str](), io.StringIO()
    monkeypatch.setattr(time, "sleep", lambda _: printed.append(out.getvalue()))
    screen = Console(file=out, force_terminal=True, width=80)
    _Player("exploding", load(recorded={})).play_plain(screen, fast=False)
    assert len(printed) == len(read_recording("exploding"))
    assert ["step  25  kl " in text for text in printed[23:26]] == [False, True, True]
    assert "step  50  kl " not in printed[25]


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
    # Commands are to be copied, so they are not wrapped; what they do gives way.
    assert all(len(line) <= 80 or " replay " in line for line in to_copy.splitlines())


@pytest.mark.parametrize(("recording", "mode"), [("exploding", "rolling"), ("drifting", "frozen")])
def test_no_word_is_broken_in_the_last_frame(
    recording: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The words below the curve are those of the incident's text, in their order."""
    monkeypatch.setenv("TERM", "xterm-256color")
    player = player_of(recording, mode)
    rows = drawn(player, 24, fast=True)[-1]
    shown = words("\n".join(rows[next(at for at, row in enumerate(rows) if "╭" in row) :]))
    on_kl = [event for event in player.events if event.signal == "kl"]
    alarm = next(event for event in reversed(on_kl) if is_alarm(event))
    remaining = iter(words(f"{event_text(alarm)}\n{event_text(on_kl[-1])}"))
    assert [word for word in shown if word not in remaining] == []  # the box may leave some out
    assert " ".join(words(alarm.message)) in " ".join(shown)
    assert {"likely", "→"} <= {*shown}


def words(text: str) -> list[str]:
    """Return the words of an incident's text, as it is in a box and in plain lines."""
    text = re.sub("[╭╮╰╯│─]", " ", text).replace("->", "→").lower()
    return [word.rstrip(":") for word in text.split()]


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


def test_in_a_checkout_the_suggestion_of_the_page_says_what_to_run_first() -> None:
    """klarm[server] is for installed packages, which contain the page."""
    (line,) = (line for line in played("healthy").splitlines() if "demo --page" in line)
    assert line.endswith("  # in a browser; run make page first")


def test_the_title_agrees_with_the_recording() -> None:
    """It names the step at which the learning rate jumps ×100."""
    rate = {row["step"]: row["learning_rate"] for row in read_recording("exploding")}
    assert RECORDINGS["exploding"].endswith("until the learning rate jumps ×100 at step 152")
    jumps = [step for step in list(rate)[1:] if rate[step] > 50 * rate[step - 1] > 0]
    assert jumps == [152]
    assert 90 < rate[jumps[0]] / rate[jumps[0] - 1] < 110


def test_fast_never_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither where it draws nor in plain lines."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(time, "sleep", lambda _: pytest.fail("it waits"))
    assert 20 < len(drawn(player_of("exploding"), 24, fast=True)) < 60  # otherwise, one per step
    screen = Console(file=io.StringIO(), force_terminal=True, width=80)
    player = player_of("exploding")
    player.play_plain(screen, fast=True)
    assert len(player.points) == len(player.rows)


def test_fast_cannot_be_combined_with_the_page() -> None:
    """The error is one line."""
    done = run_klarm("demo", "--page", "--fast")
    assert done.returncode == 2
    assert "--page takes no --fast" in done.stderr
