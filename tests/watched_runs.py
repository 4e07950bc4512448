"""What klarm says of many runs, in a few lines each: which detector alerts where, and what follows.

Recorded, framework and generated runs, and some in which values come as no trainer should send
them. A change of any rule or number shows in the diff of tests/approved/watched-runs.txt.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import isfinite, nan, sin
from typing import Any

from framework_runs import archive
from klarm.cli.demo import RECORDINGS, read_recording
from klarm.config import load
from klarm.journal.file import MemoryJournal
from klarm.monitor.monitor import Monitor
from klarm.types import Alert, Event
from quality.generators import FAILURES, HEALTHY, generate

Row = tuple[int, Mapping[str, Any]]

# What few trainers log, with a healthy value.
RARE = [
    ("advantage_std", 0.5),
    ("clip_fraction", 0.02),
    ("kl_old", 0.003),
    ("kl_probe", 0.02),
    ("kl_rollout", 0.002),
    ("reward_std", 0.2),
    ("truncated_fraction", 0.01),
    ("zero_std_fraction", 0.05),
]


def watched_runs() -> str:
    """Return all runs with what is said of them."""
    return "\n\n".join(
        "\n".join([f"# {name}", *said(rows, framework)]) for name, framework, rows in runs()
    )


def said(rows: Iterable[Row], framework: str) -> list[str]:
    """Return a line per detector with its alerts, the highest scores, and a line per event."""
    config, alerts = load(recorded={}), list[Alert]()
    detectors = config.detectors()
    events: list[Event] = []
    monitor = Monitor(
        "a",
        detectors,
        MemoryJournal(),
        rules=config.incident_rules(),
        framework=framework,
    )
    monitor.on_event.append(events.append)
    highest: dict[str, float] = {}
    for step, metrics in rows:
        alerts += monitor.log(metrics, step)
        for detector in detectors:
            if isfinite(detector.score):
                highest[detector.name] = max(highest.get(detector.name, 0.0), detector.score)
    monitor.finish()
    by_detector: dict[str, list[Alert]] = {}
    for alert in alerts:
        by_detector.setdefault(alert.detector, []).append(alert)
    scores = ", ".join(f"{name} {short(score)}" for name, score in highest.items() if score) or "0"
    return [
        *(f"{detector}: {alarms(own)}" for detector, own in sorted(by_detector.items())),
        f"highest scores: {scores}",
        *(
            f"step {event.step}: {event.subject or event.signal} {event.event} ({event.reason}), "
            f"{event.severity}, since {event.started}, peak {short(event.peak)}"
            for event in events
        ),
    ]


def alarms(alerts: list[Alert]) -> str:
    """Return the steps of alerts by severity, and the numbers of the first."""
    parts = []
    for severity in ("warning", "critical"):
        steps = [alert.step for alert in alerts if alert.severity == severity]
        if steps:
            parts.append(f"{severity} {len(steps)} times from {steps[0]} to {steps[-1]}")
    numbers = ", ".join(f"{key} {short(value)}" for key, value in alerts[0].metrics.items())
    return f"{'; '.join(parts)}; first: {numbers}"


def short(value: float | str) -> str:
    """Return a number with four digits."""
    return value if isinstance(value, str) else f"{value:.4g}"


def runs() -> Iterator[tuple[str, str, Iterable[Row]]]:
    """Yield name, framework and rows of each run."""
    for name in RECORDINGS:
        yield name, "trl/GRPO", [(row["step"], without_step(row)) for row in read_recording(name)]
    seen = set()
    for entry in sorted(archive.entries(archive.read()), key=lambda entry: str(entry["name"])):
        kind = entry["name"].rpartition("-")[0]  # one seed is enough
        if kind not in seen:
            seen.add(kind)
            yield entry["name"], f"{entry['framework']}/{entry['algorithm']}", entry["rows"]
    for kind in (HEALTHY, *FAILURES):
        for seed in (1, 2):
            run = generate(kind, seed)
            pairs = zip(run.steps.tolist(), run.kl.tolist(), strict=True)
            yield f"{kind} {seed}", "", [(step, {"kl": value}) for step, value in pairs]
    for name, rows in odd_runs().items():
        yield name, "", rows


def odd_runs() -> dict[str, list[Row]]:
    """Return runs in which values come late, twice, held, not at all or broken."""
    plain = [(step, row_at(step)) for step in range(400)]
    return {
        "every value held for three rows": [(step, row_at(step - step % 3)) for step, _ in plain],
        "two dicts a step": [
            (step, part) for step, row in plain for part in (dict([*row.items()][:2]), row)
        ],
        "every twentieth step": [(20 * step, row) for step, row in plain],
        "kl is missing from step 200 on": [
            (step, row if step < 200 else {**row, "kl": None}) for step, row in plain
        ],
        "kl sticks from step 200 on": [
            (step, row if step < 200 else {**row, "kl": 0.02}) for step, row in plain
        ],
        "every value held for six rows, and kl sticks from step 200 on": [
            (step, {**row_at(step - step % 6), "kl": row_at(min(step, 200) // 6 * 6)["kl"]})
            for step, _ in plain
        ],
        "not a number for seven rows": [
            (step, {**row, "kl": nan, "loss": nan} if 200 <= step < 207 else row)
            for step, row in plain
        ],
        "only reward is logged, and is at its best from step 200 on": [
            (step, {"reward": row["reward"] if step < 200 else 1.0}) for step, row in plain
        ],
        "each metric is not a number once": [
            (step, {**row, name: nan} if step == 200 + 10 * place else row)
            for step, row in plain
            for place in [min(5, max(0, (step - 200) // 10))]
            for name in [list(row)[place]]
        ],
        "the first row is not a number": [(0, dict.fromkeys(row_at(0), nan)), *plain[1:]],
        "kl explodes, and training goes back": [
            *((step, {**row, "kl": row["kl"] * 1.2 ** max(0, step - 250)}) for step, row in plain),
            *plain[240:],
        ],
        "rewards come two steps late": [
            late
            for step, row in plain
            for late in (
                (step, {"kl": row["kl"], "loss": row["loss"]}),
                *([(step - 2, {"reward": row["reward"]})] if step > 2 else []),
            )
        ],
        "all that is rarely logged climbs from step 200 on": [
            (step, {**row, **{name: 1.03 ** max(0, step - 200) * value for name, value in RARE}})
            for step, row in plain
        ],
        "kl falls below zero from step 200 on, and loss swings wider": [
            (step, {**row, "kl": row["kl"] - late, "loss": row["loss"] * (1.0 + 3.0 * late)})
            for step, row in plain
            for late in [0.005 * max(0, step - 200)]
        ],
        "reward and entropy are lost slowly from step 200 on": [
            (step, {**row, "reward": row["reward"] * left, "entropy": row["entropy"] * left})
            for step, row in plain
            for left in [0.98 ** max(0, step - 200)]
        ],
        "learning rate ×30 at step 300": [
            (step, {**row, "learning_rate": 1e-6 * (30 if step >= 300 else 1)})
            for step, row in plain
        ],
    }


def row_at(step: int) -> dict[str, Any]:
    """Return a row of a healthy run: noise without a random number."""
    noise = sin(12.9898 * step) * 0.2
    return {
        "kl": 0.02 * (1 + noise),
        "loss": 0.1 + 0.05 * sin(78.233 * step),
        "reward": 0.5 + 0.001 * step + 0.05 * sin(37.719 * step),
        "entropy": 1.5 - 0.001 * step + 0.02 * noise,
        "grad_norm": 1.0 + noise,
        "length": 200 + 10 * noise,
    }


def without_step(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metrics of a row."""
    return {key: value for key, value in row.items() if key != "step"}
