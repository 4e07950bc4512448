"""The examples run, and each is watched from its first step to its last."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
# What each example's metrics are called in the journal.
METRICS = {
    "plain_loop": {"kl", "entropy", "reward", "reward_std", "loss", "grad_norm"},
    "accelerate_loop": {"entropy", "reward", "loss"},
    "ray_actors": {"kl", "entropy", "reward", "length"},
    "several_dicts": {"kl", "reward", "grad_norm"},
}


def run(example: str, *arguments: str) -> list[dict[str, object]]:
    """Run an example and return its journal."""
    subprocess.run(
        [sys.executable, str(EXAMPLES / f"{example}.py"), *arguments],
        check=True,
        capture_output=True,
        timeout=120,
    )
    path = Path("klarm_runs") / example.replace("_", "-") / "journal.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_every_example_is_tested() -> None:
    """A new one as well. Those of one's own parts need no framework: tests/test_examples.py."""
    found = {path.stem for path in EXAMPLES.glob("*.py") if not path.stem.startswith("custom_")}
    assert found == METRICS.keys()


@pytest.mark.parametrize("example", METRICS)
def test_an_example_is_watched_step_by_step(example: str) -> None:
    """Every step has all metrics, in one dict or in several, and nothing is alarmed about."""
    journal = run(example, "30")
    steps: dict[object, set[str]] = {}
    for row in journal:
        if row["type"] == "step":
            steps.setdefault(row["step"], set()).update(row["metrics"])  # type: ignore[call-overload]
    assert list(steps) == list(range(30))
    assert all(METRICS[example] <= names for names in steps.values())
    assert (journal[-1]["type"], journal[-1]["steps"]) == ("finish", 30)
    assert not [row for row in journal if row["type"] == "event"]


@pytest.mark.parametrize("example", METRICS)
def test_an_example_as_it_is_opens_no_incident(example: str) -> None:
    """Whoever tries it sees a healthy run."""
    assert not [row for row in run(example) if row["type"] == "event"]


def test_the_plain_loop_is_alarmed_about_when_its_learning_rate_is_reckless() -> None:
    """And only then."""
    healthy = run("plain_loop", "200")
    assert not [row for row in healthy if row["type"] == "event"]
    Path("klarm_runs").rename("healthy")
    reckless = run("plain_loop", "200", "5")
    assert "kl" in {row["signal"] for row in reckless if row["type"] == "event"}
