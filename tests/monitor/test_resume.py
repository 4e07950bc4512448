"""Continuing a run from a journal that is damaged, or on a disk that is full."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

import klarm
from klarm.journal.reading import read_journal
from klarm.journal.records import Resume

pytestmark = pytest.mark.usefixtures("one_detector")

JOURNAL = Path("klarm_runs/a/journal.jsonl")
SIGMA = [0.4, 0.6] * 50  # mean 0.5, standard deviation 0.1


def run(values: list[float], start: int = 0) -> None:
    klarm.init("a", console=False)
    for step, value in enumerate(values, start):
        klarm.log({"kl": value}, step)
    klarm.finish()


def test_damaged_lines_are_said_once_with_their_number(capsys: pytest.CaptureFixture[str]) -> None:
    """The run goes on with the rest."""
    run(SIGMA)
    content = JOURNAL.read_bytes()
    for step in (b'"step":17,', b'"step":30,'):
        content = content.replace(step, b'"step":99,')
    JOURNAL.write_bytes(content)
    watched = klarm.init("a")
    assert klarm.log({"kl": 9.0}, 100)
    watched.resume(90)
    klarm.finish()
    said = capsys.readouterr().err
    assert said.count("damaged") == 1
    assert "2 lines of klarm_runs/a/journal.jsonl, the first of them line 19, are damaged" in said
    assert "its journal ends at step 99" in said


def test_a_damaged_first_line_does_not_keep_a_run_from_being_continued() -> None:
    """Its baselines are those of before."""
    run(SIGMA)
    JOURNAL.write_bytes(b"?" + JOURNAL.read_bytes()[1:])
    watched = klarm.init("a", console=False)
    assert watched.taken_up
    assert klarm.log({"kl": 9.0}, 100)


def test_a_run_is_continued_on_a_disk_that_is_full(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What earlier processes recorded can still be read, so the detectors are not blind."""
    run(SIGMA)

    def refuse(file: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(os, "write", refuse)
        watched = klarm.init("a")
        assert watched.taken_up
        assert klarm.log({"kl": 9.0}, 100)
    klarm.finish()
    assert "cannot write" in capsys.readouterr().err
    assert [r.step for r in read_journal(JOURNAL) if isinstance(r, Resume)] == [100]


def test_what_going_back_changes_is_written_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Resume line and the ends of incidents are one batch, so a kill cannot part them."""
    watched = klarm.init("a", console=False)
    for step, value in enumerate([*SIGMA, float("nan")]):
        klarm.log({"kl": value}, step)
    written: list[bytes] = []
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, data: written.append(data) or write(file, data))
    watched.resume(90)
    (batch,) = written
    resume, resolved = batch.splitlines()
    assert resume.startswith(b'{"type":"resume","step":90,')
    assert b'"lines":1' in resume
    assert resolved.startswith(b'{"type":"event","event":"resolved"')
