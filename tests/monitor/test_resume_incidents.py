"""What becomes of incidents when a run is resumed: people hear only what changed.

Covers resume.py and rollback.py.
"""

from __future__ import annotations

from pathlib import Path

import klarm
from klarm import api
from klarm.journal.reading import read_journal
from klarm.types import Command, Event


def explosion(step: int) -> dict[str, float]:
    return {"kl": 3.0 + 0.01 * (step % 7) if 100 <= step < 160 else 0.02 + 0.001 * (step % 3)}


def die() -> None:
    """End as kill -9 does: nothing more is written."""
    monitor = api._current
    assert monitor is not None
    monitor._fall_silent()
    api._replace_current(None)


def recorded_events() -> list[tuple[str, str, int]]:
    records = read_journal("klarm_runs/a/journal.jsonl")
    return [(r.event, r.reason, r.step) for r in records if isinstance(r, Event)]


def test_an_incident_that_a_rollback_opened_again_survives_restarts() -> None:
    """Nothing went back at those, so there is nothing to say; and closed stays closed."""
    monitor = klarm.init("a", console=False)
    for step in range(230):
        monitor.log(explosion(step), step)
    monitor.resume(140)
    for step in range(140, 150):
        monitor.log(explosion(step), step)
    before = recorded_events()
    assert before[-1] == ("opened", "rolled_back", 140)
    for step in (150, 151, 152):
        die()
        monitor = klarm.init("a", console=False)
        monitor.log(explosion(step), step)
    assert recorded_events() == before
    (incident,) = monitor.critical
    monitor.hand_over(Command(command="close", key="1", time=0.0, by="ada", incident=incident.id))
    monitor.log(explosion(153), 153)
    assert recorded_events()[-1] == ("resolved", "closed", 153)
    die()
    monitor = klarm.init("a", console=False)
    monitor.log(explosion(154), 154)
    assert recorded_events()[-1] == ("resolved", "closed", 153)
    assert monitor.critical == []


def test_what_can_no_longer_be_followed_was_not_rolled_back() -> None:
    """The detectors are off in the new process: training did not go back."""
    monitor = klarm.init("a", console=False)
    for step in range(130):
        monitor.log(explosion(step), step)
    die()
    off = {name: {"enabled": False} for name in ("kl_explosion", "kl_runaway", "kl_budget")}
    monitor = klarm.init("a", console=False, **off)
    monitor.log(explosion(130), 130)
    assert recorded_events()[-1] == ("resolved", "lost", 130)


def test_an_incident_keeps_its_id_though_its_rows_are_damaged() -> None:
    """It is found again by its signal, and nobody is rung."""
    monitor = klarm.init("a", console=False)
    for step in range(130):
        monitor.log(explosion(step), step)
    (incident,) = monitor.critical
    before = recorded_events()
    die()
    path = Path("klarm_runs/a/journal.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    at = next(i for i, line in enumerate(lines) if line.startswith(b'{"type":"step","step":101,'))
    lines[at] = lines[at].replace(b'"kl":3', b'"kl":9')
    path.write_bytes(b"".join(lines))
    monitor = klarm.init("a", console=False)
    monitor.log(explosion(130), 130)
    assert [known.id for known in monitor.critical] == [incident.id]
    assert recorded_events() == before
