"""The writer: what a message takes from the journal."""

from __future__ import annotations

from pathlib import Path

import pytest

import klarm
from klarm.channels.message import Message
from klarm.delivery.routes import Run
from klarm.delivery.writer import MessageWriter
from klarm.journal.file import FILE_NAME
from klarm.journal.search import recorded_events, steps_back

FOLDER = Path("klarm_runs/a")


def message_about(kind: str, **settings: float) -> Message:
    events = [event for _, _, event in recorded_events(FOLDER / FILE_NAME)]
    event = next(event for event in events if event.event == kind)
    return MessageWriter(**settings)([event], Run("a", FOLDER))  # type: ignore[arg-type]


@pytest.fixture
def exploded() -> None:
    """A run with checkpoints whose KL doubles from step 100, and ends well."""
    monitor = klarm.init("a", console=False)
    for step in range(160):
        level = 0.02 if not 100 <= step < 115 else 0.02 * 2 ** (step - 100)
        monitor.log({"kl": level + 0.001 * (step % 3)}, step)
        if step % 40 == 39:
            monitor.checkpoint(step, f"out/checkpoint-{step}")
    klarm.finish()


@pytest.mark.usefixtures("exploded")
def test_a_message_shows_the_curve_and_the_last_checkpoint_before() -> None:
    """The one of step 79: that of 119 is of the broken policy."""
    message = message_about("opened")
    assert message.metric == "kl"
    assert message.curve[0] == (0, 0.02)
    assert message.curve[-1][0] == message.step
    assert message.curve[-1][1] == pytest.approx(0.02 * 2 ** (message.step - 100), abs=0.003)
    assert message.fields["Last good checkpoint"] == "out/checkpoint-79"
    assert message.fields["Since"].startswith(f"step {message.started}, 20")
    assert "Why it opened" in message.fields


@pytest.mark.usefixtures("exploded")
def test_the_message_of_the_end_says_what_it_was() -> None:
    """Its opening said what moved; its end says for how long."""
    message = message_about("resolved", gpus=8, gpu_hour_price=2.0)
    assert "resolved" in message.title
    assert message.fields["Lasted"].startswith("steps 10")
    assert message.fields["Cost"].startswith("$0.0")


@pytest.mark.usefixtures("exploded")
def test_a_message_about_a_run_without_a_folder_says_less() -> None:
    """As on a disk that is full."""
    event = next(iter(recorded_events(FOLDER / FILE_NAME)))[2]
    message = MessageWriter(url="https://example.org/a")([event], Run("a", None))
    assert message.curve == []
    assert message.link == "https://example.org/a"
    assert message.summary == event.message


def test_steps_that_were_rolled_back_are_not_in_the_curve() -> None:
    """Training went back from step 60 to 50; what it logged there before does not count."""
    monitor = klarm.init("a", console=False)
    for steps, level in ((range(60), 0.1), (range(50, 60), 0.1005)):
        for step in steps:
            monitor.log({"kl": level + 0.001 * (step % 3)}, step)
    monitor.log({"kl": float("nan")}, 60)
    klarm.finish()
    assert [step for step, _ in message_about("opened").curve] == list(range(61))


@pytest.mark.usefixtures("exploded")
def test_an_event_long_past_is_sent_with_the_curve_of_then() -> None:
    """A service was down while the run went on for a megabyte of journal, and longer."""
    before = message_about("opened")
    with (FOLDER / FILE_NAME).open("a") as journal:
        for step in range(160, 60_000):
            line = f'{{"type":"step","step":{step},"time":{step}.0,"metrics":{{"kl":0.02}}}}'
            journal.write(line + "\n")
    assert message_about("opened").curve == before.curve
    assert message_about("opened").fields == before.fields


def test_a_journal_of_garbage_is_scanned_without_an_error() -> None:
    """Torn lines, lines of other programs, and a tag within a string."""
    journal = Path("journal.jsonl")
    good = b'{"type":"checkpoint","step":5,"time":1.0,"path":"a"}\n'
    inside = b'{"type":"note","text":"{\\"type\\":\\"event\\""}\n'
    journal.write_bytes(b'{"type":"event",broken\n' + good + inside + b'\xff\n{"type":"step"')
    assert list(recorded_events(journal)) == []
    assert list(steps_back(journal)) == []
