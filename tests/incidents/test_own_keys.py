"""What moved is said with the keys that the user has named."""

from __future__ import annotations

import random
from pathlib import Path

import msgspec

import klarm
from klarm.analysis.replay import replay
from klarm.config.layers import load
from klarm.incidents.own_keys import own_keys
from klarm.metrics import Origin
from klarm.sources import read_log
from klarm.wording import event_text


def test_what_moved_has_the_keys_of_the_user_live_and_in_a_replay() -> None:
    """Other metrics have the names of klarm, as in the rest of the message."""
    rng = random.Random(0)
    watched = klarm.init("a", console=False, metrics={"kl": "KL_div", "entropy": "pi_ent"})
    for step in range(170):
        late = step >= 150
        row = {
            "KL_div": 0.02 * rng.lognormvariate(0, 0.1) * (1.3 ** (step - 150) if late else 1),
            "pi_ent": 0.6 * rng.lognormvariate(0, 0.05) * (0.3 if late else 1.0),
            "grad_norm": 0.5 * rng.lognormvariate(0, 0.1) * (4.0 if step > 145 else 1.0),
        }
        watched.log(row, step)
    klarm.finish()
    again = replay(read_log(Path("klarm_runs/a"), print), lambda found: load(recorded=found or {}))
    lines = map(msgspec.json.decode, Path("klarm_runs/a/journal.jsonl").read_text().splitlines())
    live = next(line["moved"] for line in lines if line.get("signal") == "kl" and line.get("moved"))
    opened = next(known.opened for known in again.incidents if known.signal == "kl")
    assert live == opened.moved
    assert {"grad_norm", "entropy"} <= {moved.metric for moved in opened.also}
    assert "Also moved: grad_norm ×3.8" in event_text(opened)
    assert "then entropy (pi_ent) ×0." in event_text(opened)


def test_keys_of_a_framework_are_not_shown() -> None:
    """Their names say what they are."""
    origins = {"kl": Origin("train/objective/kl"), "reward": Origin("my/score")}
    assert own_keys(origins) == {"reward": "my/score"}
