"""An incident may be resolved twice at one step: two events, and both are delivered."""

from __future__ import annotations

import math
import random

from loopback import LoopbackChannel, LoopbackRoute, Server
from one_channel import FOLDER

import klarm
from klarm.delivery import routes
from klarm.delivery.log import key_of
from klarm.delivery.outbox import Outbox
from klarm.delivery.worker import Worker
from klarm.delivery.writer import MessageWriter
from klarm.journal import recorded_events
from klarm.types import Command

RULES = {"confirm_steps": 3, "resolve_after": 5, "accept_after": 30, "reopen_within": 15}


def test_an_incident_that_is_resolved_twice_at_one_step_is_delivered_twice(server: Server) -> None:
    """It reopened, and training went back to the step of its first end: nobody believes it open."""
    rng, step = random.Random(0), 0
    monitor = klarm.init("a", console=False, incidents=RULES)
    worker = Worker(
        LoopbackRoute(LoopbackChannel(name="hook", url=server.url)),
        Outbox(FOLDER),
        MessageWriter(),
        routes.Run("a", FOLDER),
        print,
        behind=False,
    )
    monitor.on_event.append(worker.put)

    def log(level: float, rows: int) -> None:
        nonlocal step
        for _ in range(rows):
            monitor.log({"kl": level * rng.lognormvariate(0, 0.3), "reward": rng.random()}, step)
            worker.turn()
            step += 1

    log(40.0, 38)
    log(math.nan, 42)
    (known,) = [incident for incident in monitor.incidents if incident.state == "open"]
    accept = Command(command="accept", key="1", time=0.0, by="ada", incident=known.id)
    monitor.hand_over(accept)
    log(0.01, 1)
    log(40.0, 22)
    step -= 8
    log(0.01, 1)
    monitor.finish()
    worker.turn()

    events = [event for _, _, event in recorded_events(FOLDER / "journal.jsonl")]
    second = [event for event in events if event.id != known.id]
    assert [event.event for event in second] == ["opened", "resolved", "reopened", "resolved"]
    assert second[1].step == second[3].step
    assert [event.seq for event in second] == [1, 2, 3, 4]
    assert len({key_of(event) for event in events}) == len(events)
    assert server.received()[-1] == (second[0].incident, "resolved", second[3].step)
    assert not worker.pending
