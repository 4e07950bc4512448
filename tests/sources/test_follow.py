"""Following a real file that grows, shrinks and is replaced between two polls.

Covers recorded.py too.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

import klarm
from event_file import event, version
from klarm.journal.file import read_journal
from klarm.journal.records import Resume, Source, Step
from klarm.sources import LogRow, SourceError
from klarm.sources.follow import Follower

LOG = Path("log.jsonl")
JOURNAL = Path("klarm_runs/a/journal.jsonl")
EVENTS = "tb/events.out.tfevents.17632000{:02}.host.1.0"

pytestmark = pytest.mark.usefixtures("one_detector")


def line(step: int, kl: float = 0.1, **more: float) -> str:
    return json.dumps({"step": step, "kl": kl, **more}) + "\n"


def lines(*steps: int, kl: float = 0.1) -> str:
    return "".join(line(step, kl + step / 1000) for step in steps)


def add(text: str, path: Path = LOG) -> None:
    with path.open("a", newline="") as file:
        file.write(text)


class Followed:
    """A follower and its monitor, as in `klarm follow`."""

    def __init__(self, path: str | Path = LOG) -> None:
        self.said: list[str] = []
        self.follower = Follower(Path(path), JOURNAL, self.said.append)
        self.monitor = klarm.init("a", console=False)

    def poll(self) -> list[object]:
        """Log the new rows; return their steps."""
        steps: list[object] = []
        for row in self.follower.poll():
            if isinstance(row, Source):
                self.monitor._source(row)
            else:
                steps.append(row.step)
                self.monitor.log(row.metrics, row.step)
        return steps


def counting_steps() -> list[int]:
    """Return the steps of the journal that were not rolled back."""
    steps: list[int] = []
    for record in read_journal(JOURNAL):
        if isinstance(record, Step):
            steps.append(record.step)
        elif isinstance(record, Resume):
            steps = [step for step in steps if step < record.step]
    return steps


def test_each_row_comes_once_as_the_file_grows() -> None:
    """It begins with the first row."""
    add(lines(1, 2))
    followed = Followed()
    assert followed.poll() == [1, 2]
    assert followed.poll() == []
    add(lines(3))
    assert followed.poll() == [3]
    assert followed.said == []


def test_an_incomplete_line_waits_for_the_rest() -> None:
    """It may be polled any number of times meanwhile."""
    whole = line(2)
    add(line(1) + whole[:9])
    followed = Followed()
    assert followed.poll() == [1]
    assert followed.poll() == []
    add(whole[9:])
    assert followed.poll() == [2]
    assert followed.said == []


def test_a_file_that_does_not_exist_yet_is_awaited() -> None:
    """The wait is reported once."""
    followed = Followed()
    assert followed.poll() == followed.poll() == []
    assert followed.said == ["log.jsonl does not exist yet; waiting for it"]
    add(lines(1))
    assert followed.poll() == [1]
    assert followed.said[1:] == ["log.jsonl exists now; reading it"]


def test_nothing_is_lost_while_a_file_cannot_be_read() -> None:
    """A network file system may be unavailable for a while."""
    add(lines(1))
    followed = Followed()
    assert followed.poll() == [1]
    LOG.rename("elsewhere")
    LOG.symlink_to(LOG)
    assert followed.poll() == followed.poll() == []
    assert followed.said == [
        "cannot read log.jsonl (Too many levels of symbolic links): trying again"
    ]
    LOG.unlink()
    Path("elsewhere").rename(LOG)
    add(lines(2))
    assert followed.poll() == [2]


@pytest.mark.parametrize("after", [[], [6], [6, 7, 8, 9, 10, 11, 12, 13, 14, 15]])
def test_a_truncated_file_is_a_restart(after: list[int]) -> None:
    """It may be empty, shorter or already longer at the next poll."""
    add(lines(*range(1, 9)))
    followed = Followed()
    followed.poll()
    LOG.write_text(lines(*after, kl=0.2))
    assert followed.poll() == []
    assert followed.said == [
        "log.jsonl was truncated or replaced; reading it again from the beginning"
    ]
    assert followed.poll() == after
    add(lines(16, kl=0.2))
    assert followed.poll() == [16]
    if after:
        assert counting_steps() == [*range(1, 6), *after, 16]


def test_a_file_that_was_replaced_is_a_restart() -> None:
    """It is another file with the same name."""
    add(lines(1, 2, 3))
    followed = Followed()
    followed.poll()
    Path("new").write_text(lines(1, 2, 3, 4, kl=0.3))
    Path("new").replace(LOG)
    followed.poll()
    assert followed.poll() == [1, 2, 3, 4]
    assert counting_steps() == [1, 2, 3, 4]


def test_a_copy_with_the_same_content_is_the_same_file() -> None:
    """rsync makes such copies."""
    add(lines(1, 2, 3))
    followed = Followed()
    followed.poll()
    Path("copy").write_text(lines(1, 2, 3, 4))
    Path("copy").replace(LOG)
    assert followed.poll() == [4]
    assert followed.said == []


def test_a_csv_file_whose_header_grew_is_not_logged_again() -> None:
    """Some loggers rewrite the file when a metric is added."""
    log = Path("log.csv")
    log.write_text("step,kl\n1,0.1\n2,0.2\n")
    followed = Followed(log)
    assert followed.poll() == ["1", "2"]
    log.write_text("step,kl,reward\n1,0.1,\n2,0.2,\n3,0.3,1.0\n")
    assert followed.poll() == []
    assert followed.poll() == ["3"]
    assert counting_steps() == [1, 2, 3]


def steps_after_restart(path: str | Path = LOG) -> list[object]:
    klarm.finish()
    return Followed(path).poll()


def test_after_a_restart_it_continues_where_it_stopped() -> None:
    """Nothing is logged twice, and nothing is left out."""
    add(lines(1, 2, 3))
    Followed().poll()
    assert steps_after_restart() == []
    add(lines(4, 5))
    assert steps_after_restart() == [4, 5]
    assert steps_after_restart() == []
    assert counting_steps() == [1, 2, 3, 4, 5]


def test_after_a_restart_it_skips_rollbacks_in_the_log() -> None:
    """A trainer went back to a checkpoint twice and appended to its log."""
    add(lines(1, 2, 3, 4) + lines(3, 4, 5, kl=0.2) + lines(2, 3, kl=0.3))
    Followed().poll()
    assert steps_after_restart() == []
    add(lines(4, kl=0.3) + lines(1, kl=0.4))
    assert steps_after_restart() == [4, 1]
    assert counting_steps() == [1]


def test_a_log_truncated_while_nobody_followed_is_a_restart() -> None:
    """Its rows differ even where the steps are the same; later restarts recognise it."""
    add(lines(*range(1, 9)))
    Followed().poll()
    LOG.write_text(lines(6, 7, kl=0.2))
    assert steps_after_restart() == [6, 7]
    assert steps_after_restart() == []
    add(lines(8, kl=0.2))
    assert steps_after_restart() == [8]
    assert counting_steps() == [*range(1, 9)]


def test_a_log_that_differs_from_the_journal_is_read_from_the_difference() -> None:
    """This happens with the same seed, or with a copy of a checkpoint."""
    add(lines(1, 2, 3, 4))
    Followed().poll()
    LOG.write_text(lines(1, 2) + lines(3, kl=0.7))
    assert steps_after_restart() == [3]
    assert steps_after_restart() == []
    assert counting_steps() == [1, 2, 3]


def test_a_partly_recorded_step_is_logged_completely() -> None:
    """Several rows may make up a step; the process may have ended between two of them."""
    add(line(1) + line(2) + json.dumps({"step": 2, "reward": 1.0}) + "\n")
    Followed().poll()
    add(json.dumps({"step": 2, "loss": 0.5}) + "\n")
    assert steps_after_restart() == [2, 2, 2]
    assert steps_after_restart() == []
    add(line(3))
    assert steps_after_restart() == [3]


def test_counting_of_rows_without_a_step_continues() -> None:
    """This also works after a restart, and in a log that starts over."""
    log = Path("train.log")
    log.write_text("{'kl': '0.1'}\n{'kl': '0.2'}\n")
    Followed(log).poll()
    add("{'kl': '0.3'}\n", log)
    assert steps_after_restart(log) == [None]
    log.write_text("{'kl': '0.7'}\n")
    assert steps_after_restart(log) == [None]
    assert steps_after_restart(log) == []
    assert counting_steps() == [0, 1, 2, 3]


def test_non_finite_values_are_recognised_after_a_restart() -> None:
    """A NaN is not equal to itself."""
    add(line(1, float("nan")) + line(2, float("-inf")) + line(3))
    Followed().poll()
    assert steps_after_restart() == []


def test_an_event_folder_is_followed_from_file_to_file() -> None:
    """A step is a row once the next one begins, or nothing more comes."""
    first, second = Path(EVENTS.format(1)), Path(EVENTS.format(2))
    first.parent.mkdir()
    followed = Followed("tb")
    assert followed.poll() == []
    assert followed.said == ["tb holds no event files yet; waiting for one"]
    first.write_bytes(version() + event(1, kl=0.1) + event(1, reward=1.0) + event(2, kl=0.2)[:-3])
    assert followed.poll() == []
    assert followed.poll() == [1]
    with first.open("ab") as file:
        file.write(event(2, kl=0.2)[-3:] + event(3, kl=0.3))
    assert followed.poll() == [2]
    second.write_bytes(version() + event(2, kl=0.4) + event(3, kl=0.4) + event(4, kl=0.5))
    assert followed.poll() == [3, 2, 3]
    assert followed.poll() == [4]
    assert steps_after_restart("tb") == []
    with second.open("ab") as file:
        file.write(event(5, kl=0.5) + event(6, kl=0.5))
    klarm.finish()
    followed = Followed("tb")
    assert followed.poll() + followed.poll() == [5, 6]
    assert counting_steps() == [1, 2, 3, 4, 5, 6]


def test_the_tenth_event_file_of_a_process_comes_after_the_ninth() -> None:
    """Files of the same second differ only in the last number."""
    folder = Path("tb")
    folder.mkdir()
    followed = Followed("tb")
    for number, step in ((9, 1), (10, 2)):
        name = f"events.out.tfevents.1763200000.host.77.{number}"
        (folder / name).write_bytes(version() + event(step, kl=0.1))
        assert followed.poll() + followed.poll() == [step]
    assert steps_after_restart("tb") == []


def test_a_step_that_was_read_in_two_parts_is_recognised() -> None:
    """It was two rows before, and is one now."""
    file = Path(EVENTS.format(1))
    file.parent.mkdir()
    file.write_bytes(version() + event(1, kl=0.1))
    followed = Followed("tb")
    assert followed.poll() + followed.poll() == [1]
    with file.open("ab") as more:
        more.write(event(1, reward=1.0) + event(2, kl=0.2) + event(3, kl=0.2))
    assert followed.poll() + followed.poll() == [1, 2, 3]
    klarm.finish()
    followed = Followed("tb")
    assert followed.poll() + followed.poll() == []


def trainer_state(*steps: int, kl: float = 0.1, begin: str = "") -> None:
    """Write a document as a whole, as the Trainer does."""
    rows = [{"step": step, "kl": kl + step / 1000} for step in steps]
    text = json.dumps({"best_metric": None, "log_history": rows}, indent=2)
    Path("out/trainer_state.json").write_text(begin or text)


@pytest.mark.parametrize("path", ["out/trainer_state.json", "out"])
def test_a_document_that_is_rewritten_is_followed(path: str) -> None:
    """Each row is read once, even after a restart or from a half-written file."""
    Path("out").mkdir()
    trainer_state()
    followed = Followed(path)
    assert followed.poll() == []
    trainer_state(1, 2)
    assert followed.poll() == [1, 2]
    assert followed.poll() == []
    trainer_state(begin='{"log_history": [{"step": 1')
    assert followed.poll() == []
    trainer_state(1, 2, 3)
    assert followed.poll() == [3]
    klarm.finish()
    followed = Followed(path)
    assert followed.poll() == []
    trainer_state(1, 2, 3, 4)
    assert followed.poll() == [4]
    trainer_state(1, 2, 3, kl=0.5)
    assert followed.poll() + followed.poll() == [1, 2, 3]
    assert "was truncated or replaced" in followed.said[0]


def a_journal() -> Path:
    klarm.init("b", console=False)
    return Path("klarm_runs/b")


def a_pipe() -> Path:
    os.mkfifo("pipe")
    return Path("pipe")


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (a_journal, "is a journal of klarm: its run is already watched"),
        (a_pipe, "is not a file; save what it gives to one first"),
    ],
)
def test_logs_that_cannot_be_followed_are_refused(make: Callable[[], Path], why: str) -> None:
    """The message says why."""
    follower = Follower(make(), JOURNAL, pytest.fail)
    with pytest.raises(SourceError, match=why):
        list(follower.poll())


def test_steps_of_the_training_process_are_not_taken_for_rows_of_the_log() -> None:
    """Its steps are not taken for those of the log."""
    monitor = klarm.init("a", console=False)
    monitor.log({"kl": 0.1}, 1)
    klarm.finish()
    add(lines(1, 2))
    new = list(Follower(LOG, JOURNAL, pytest.fail).poll())
    assert new[0] == Source(str(LOG.absolute()), 0, "")
    assert [row.step for row in new[1:] if isinstance(row, LogRow)] == [1, 2]
