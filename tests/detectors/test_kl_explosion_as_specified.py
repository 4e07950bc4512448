"""kl_explosion used exactly as specified: what its docs page says to set, proven."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import klarm
from klarm.cli.demo import RECORDINGS, read_recording
from klarm.config import Config, load
from klarm.journal import MemoryJournal
from klarm.types import Alert, Event

PAGE = Path(__file__).parents[2] / "docs" / "detectors" / "kl_explosion.md"


def as_specified() -> dict[str, object]:
    """Return the settings that the docs page gives, word for word."""
    _, _, section = PAGE.read_text().partition("## Use it exactly as specified")
    (block,) = re.findall(r"```yaml\n(.*?)```", section.partition("\n## ")[0], re.DOTALL)
    return dict(yaml.safe_load(block))


def watch(rows: list[dict[str, float]], config: Config) -> tuple[list[Alert], list[Event]]:
    """Return what the rule says of a run, and what becomes of incidents on KL."""
    events: list[Event] = []
    monitor = klarm.Monitor("a", config.detectors(), MemoryJournal(), rules=config.incident_rules())
    monitor.on_event.append(events.append)
    alerts = [alert for step, row in enumerate(rows) for alert in monitor.log(row, step)]
    rule = [alert for alert in alerts if alert.detector == "kl_explosion"]
    return rule, [event for event in events if event.signal == "kl"]


def check(rows: list[dict[str, float]], config: Config) -> bool:
    """Hold the promise of the page on a run; return whether the rule fired at all."""
    alerts, events = watch(rows, config)
    for severity in ("warning", "critical"):
        first = next((a for a in alerts if severity in ("warning", a.severity)), None)
        if first is not None:
            notified = [
                e for e in events if e.event in ("opened", "escalated") and e.step <= first.step
            ]
            assert notified, first
            assert severity == "warning" or any(e.severity == "critical" for e in notified), first
    return bool(alerts)


@pytest.mark.parametrize("name", RECORDINGS)
def test_the_first_warning_opens_and_the_first_critical_escalates(name: str) -> None:
    """On recorded runs, one of them healthy, with every other detector at its defaults."""
    assert check(read_recording(name), load(overrides=as_specified()))


@given(st.integers(0, 2**32), st.floats(1e-3, 3.0), st.floats(0.0, 0.05))
def test_it_behaves_as_specified_on_any_run(seed: int, scale: float, growth: float) -> None:
    """Also where the reward pays for KL, which excuses it by default."""
    random = np.random.default_rng(seed)
    kl = scale * random.lognormal(0.0, 0.5, 150) * np.exp(growth * np.arange(150))
    reward = np.arange(150) / 50 + random.normal(0.0, 0.1, 150)
    rows = [{"kl": float(k), "reward": float(r)} for k, r in zip(kl, reward, strict=True)]
    check(rows, load(overrides=as_specified()))


def test_the_first_warning_is_the_one_that_opens() -> None:
    """At its own step, and the critical one at its own: nothing waits."""
    rows = [{"kl": 1.0 + 0.1 * (step % 3), "reward": float(step)} for step in range(40)]
    rows += [{"kl": 1.45, "reward": 40.0}, {"kl": 1.0, "reward": 41.0}, {"kl": 9.0, "reward": 42.0}]
    alerts, events = watch(rows, load(overrides=as_specified()))
    assert [(a.step, a.severity) for a in alerts] == [(40, "warning"), (42, "critical")]
    said = [(e.event, e.step, e.severity) for e in events]
    assert said == [("opened", 40, "warning"), ("escalated", 42, "critical")]


def test_by_default_the_same_run_opens_no_incident() -> None:
    """The test before would prove nothing otherwise; the alerts are the same."""
    rows = [{"kl": 1.0 + 0.1 * (step % 3), "reward": float(step)} for step in range(40)]
    rows += [{"kl": 1.45, "reward": 40.0}, {"kl": 1.0, "reward": 41.0}]
    alerts, events = watch(rows, load())
    assert [(a.step, a.severity) for a in alerts] == [(40, "warning")]
    assert not events
    assert watch(rows, load(overrides=as_specified()))[0] == alerts
