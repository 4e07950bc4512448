"""Step numbers only name rows: whatever they count, the same rows give the same result."""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Callable, Iterator
from functools import cache
from importlib.resources import files
from itertools import accumulate

import msgspec

from cases import over
from klarm.analysis.replay import Replay, replay
from klarm.config.layers import load
from klarm.detectors import CATALOGUE
from klarm.journal import Checkpoint
from klarm.sources import LogRow
from klarm.wording import event_text, title

Row = dict[str, float]
Numbering = Callable[[int], int]

ROWS = 300
ONSET = 180
# Where the trouble of a made-up run ends, if it does.
END = 240


def every_tenth(row: int) -> int:
    return 10 * row


def timesteps(row: int) -> int:
    return 2048 * (row + 1)


_GAPS = random.Random(0)
_IRREGULAR = list(accumulate(_GAPS.choice((1, 1, 2, 7, 500)) for _ in range(1_000)))


def irregular(row: int) -> int:
    return _IRREGULAR[row]


def unmistakable(row: int) -> int:
    """Number every row, from so high a step that no other number of a message looks like one."""
    return 7_000_000_000 + row


NUMBERINGS = (every_tenth, timesteps, irregular)


def usual(row: int, noise: random.Random) -> Row:
    """Return a row of a healthy run that logs nearly everything klarm reads."""
    return {
        "kl": (0.01 + 0.00005 * row) * math.exp(noise.gauss(0.0, 0.12)),
        "kl_old": 0.002 * math.exp(noise.gauss(0.0, 0.2)),
        "kl_rollout": 0.001 * math.exp(noise.gauss(0.0, 0.2)),
        "kl_probe": (0.01 + 0.00005 * row) * math.exp(noise.gauss(0.0, 0.1)),
        "reward": 0.3 + 0.4 * (1.0 - math.exp(-row / 100.0)) + noise.gauss(0.0, 0.03),
        "reward_std": 0.2 * math.exp(noise.gauss(0.0, 0.1)),
        "reward_dip_p": noise.uniform(0.2, 0.9),
        "rewards/format": 0.5 + noise.gauss(0.0, 0.02),
        "entropy": 1.2 - 0.0005 * row + noise.gauss(0.0, 0.03),
        "advantage_std": 1.0 * math.exp(noise.gauss(0.0, 0.05)),
        "grad_norm": 0.8 * math.exp(noise.gauss(0.0, 0.15)),
        "learning_rate": 1e-6,
        "loss": 0.05 + noise.gauss(0.0, 0.01),
        "zero_std_fraction": noise.uniform(0.0, 0.2),
        "length": 200.0 + noise.gauss(0.0, 5.0),
        "truncated_fraction": noise.uniform(0.0, 0.05),
        "clip_fraction": noise.uniform(0.0, 0.1),
    }


def kl_explosion(row: Row, gone: int) -> Row:
    factor = 1.15**gone
    return row | {
        "kl": row["kl"] * factor,
        "kl_probe": row["kl_probe"] * factor,
        "grad_norm": row["grad_norm"] * min(factor, 30.0) ** 0.5,
        "reward": row["reward"] - min(0.5, 0.004 * gone),
    }


def kl_drift(row: Row, gone: int) -> Row:
    return row | {"kl": row["kl"] * 1.02**gone}


def kl_below_zero(row: Row, gone: int) -> Row:
    return row | {"kl": -0.2 - 0.001 * gone}


def large_updates(row: Row, gone: int) -> Row:
    return row | {"kl_old": 0.5 + 0.001 * gone, "kl_rollout": 0.4 + 0.001 * gone}


def entropy_collapse(row: Row, gone: int) -> Row:
    fallen = max(0.02, 1.1 * 0.95**gone) * (1.0 + 0.01 * math.sin(gone))
    return row | {"entropy": fallen, "reward": row["reward"] - min(0.2, 0.003 * gone)}


def slow_entropy_fall(row: Row, gone: int) -> Row:
    return row | {"entropy": 1.1 * 0.985**gone}


def entropy_below_zero(row: Row, gone: int) -> Row:
    return row | {"entropy": row["entropy"] - 0.4 * gone}


def reward_collapse(row: Row, gone: int) -> Row:
    return row | {"reward": row["reward"] - 0.6, "rewards/format": 0.1 + 0.001 * (gone % 7)}


def reward_drift(row: Row, gone: int) -> Row:
    return row | {"reward": row["reward"] - 0.004 * gone, "kl": row["kl"] * (1.0 + 0.01 * gone)}


def reward_hacking(row: Row, gone: int) -> Row:
    return row | {
        "reward": row["reward"] + min(1.0, 0.02 * gone),
        "reward_std": row["reward_std"] * 6.0,
        "reward_dip_p": 0.0001,
        "entropy": row["entropy"] * 0.97**gone,
        "kl": row["kl"] * (1.0 + 0.8 * gone),
    }


def all_rewards_equal(row: Row, gone: int) -> Row:
    share = 0.99 - 0.001 * (gone % 5)
    return row | {"zero_std_fraction": share, "reward_std": 0.001, "grad_norm": 0.01}


def length_blowup(row: Row, gone: int) -> Row:
    return row | {"length": row["length"] * (1.0 + 0.1 * gone), "reward": 0.2 - 0.0001 * gone}


def gradient_spikes(row: Row, gone: int) -> Row:
    return row | {"grad_norm": row["grad_norm"] * (60.0 if gone % 9 < 6 else 1.0)}


def wide_advantages(row: Row, gone: int) -> Row:
    return row | {"advantage_std": row["advantage_std"] * 9.0, "clip_fraction": 0.9 - 0.001 * gone}


def loss_explosion(row: Row, gone: int) -> Row:
    return row | {"loss": 40.0 + 3.0 * gone}


def raised_rate(row: Row, gone: int) -> Row:
    return row | {"learning_rate": 1e-4, "entropy": row["entropy"] * 0.9**gone}


def not_finite(row: Row, gone: int) -> Row:
    return row | {"loss": math.nan, "grad_norm": math.inf, "kl": math.nan} if gone % 3 else row


def broken_reward(row: Row, gone: int) -> Row:
    return row | {"reward": math.nan} if gone < 4 else row


def missing(row: Row, gone: int) -> Row:
    return {name: value for name, value in row.items() if name not in ("kl", "entropy")}


def stuck(row: Row, gone: int) -> Row:
    return row | {"reward": 0.5, "entropy": 0.9}


TROUBLES = (
    kl_explosion,
    kl_drift,
    kl_below_zero,
    large_updates,
    entropy_collapse,
    slow_entropy_fall,
    entropy_below_zero,
    reward_collapse,
    reward_drift,
    reward_hacking,
    all_rewards_equal,
    length_blowup,
    gradient_spikes,
    wide_advantages,
    loss_explosion,
    raised_rate,
    not_finite,
    broken_reward,
    missing,
    stuck,
)


def made_up(
    trouble: Callable[[Row, int], Row], *, ends: bool = False, sparse: bool = False
) -> list[Row]:
    """Return the rows of a run in which a trouble begins, and may end. Sparse: KL now and then."""
    noise = random.Random(trouble.__name__)
    rows = []
    for number in range(ROWS):
        row = usual(number, noise)
        if number >= ONSET and not (ends and number >= END):
            row = trouble(row, number - ONSET)
        if sparse and number % 4:
            row = {name: value for name, value in row.items() if name not in ("kl", "entropy")}
        rows.append(row)
    return rows


def recorded(name: str) -> list[Row]:
    """Return the rows of a recording that comes with klarm."""
    text = (files("klarm") / "recordings" / f"{name}.jsonl").read_text()
    rows = [json.loads(line) for line in text.splitlines()]
    return [{name: value for name, value in row.items() if name != "step"} for row in rows]


def runs() -> dict[str, list[Row]]:
    found = {name: recorded(name) for name in ("drifting", "exploding")}
    for trouble in TROUBLES:
        found[trouble.__name__] = made_up(trouble)
    for trouble in (kl_explosion, reward_collapse, missing):
        found[f"{trouble.__name__}_that_ends"] = made_up(trouble, ends=True)
    for trouble in (kl_explosion, reward_hacking):
        found[f"{trouble.__name__}_sparse"] = made_up(trouble, sparse=True)
    return found


RUNS = runs()


@cache
def numbered(name: str, numbering: Numbering) -> Replay:
    """Replay a run under these step numbers, with a checkpoint every 50 rows."""

    def log() -> Iterator[LogRow | Checkpoint]:
        for row, metrics in enumerate(RUNS[name]):
            yield LogRow(numbering(row), metrics)
            if row % 50 == 49:
                yield Checkpoint(0.0, numbering(row), f"s3://bucket/{row // 50}")

    return replay(log(), lambda _: load(recorded={}))


def said(found: Replay) -> list[str]:
    """Return all that a replay found, and each event in words, as lines to compare."""
    words = [[title(event), event_text(event)] for event in found.events]
    return json.dumps([msgspec.to_builtins(found), words], indent=1).splitlines()


def renumbered(lines: list[str], numbering: Numbering) -> list[str]:
    """Return what was said of unmistakable step numbers as it is to be said of others."""

    def one(match: re.Match[str]) -> str:
        return str(numbering(int(match[0]) - unmistakable(0)))

    return [re.sub(r"\b7000000\d{3}\b", one, line) for line in lines]


@over("name", RUNS)
def test_step_numbers_change_nothing_but_the_step_numbers(name: str) -> None:
    """Every 10th step, timesteps, gaps: the same alerts, incidents and messages by row."""
    expected = said(numbered(name, unmistakable))
    numbering = NUMBERINGS[list(RUNS).index(name) % len(NUMBERINGS)]
    assert said(numbered(name, numbering)) == renumbered(expected, numbering)


def test_every_detector_raises_an_alert_in_one_of_these_runs() -> None:
    """So that none can count steps where it should count rows."""
    found = {a.detector for name in RUNS for a in numbered(name, unmistakable).alerts}
    assert {kind.name for kind in CATALOGUE} <= found
