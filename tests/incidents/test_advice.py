"""Advice in the words of the framework: a policy in SB3 or RLlib has episodes, and no prompts."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable
from pathlib import Path

from cases import over
from klarm.detectors import CATALOGUE, Detector
from klarm.detectors.gradient_norm_spike import GradientNormSpikeDetector
from klarm.incidents.pattern import Pattern
from klarm.incidents.playbook import PATTERNS
from klarm.journal.file import MemoryJournal
from klarm.metrics import METRICS, advice_of
from klarm.monitor.monitor import Monitor
from klarm.types import Event
from klarm.wording import advice

Row = dict[str, float]

OF_EPISODES = ("sb3", "rllib")
PAGES = Path(__file__).parents[2] / "docs" / "frameworks"
# What these two log: the metrics in the tables of their pages, and one that is in no table.
LOGGED = {"kl_coef"} | {
    found
    for framework in OF_EPISODES
    for found in re.findall(r"(?m)^\| `(\w+)` \|", (PAGES / f"{framework}.md").read_text())
    if found in METRICS
}
OF_LANGUAGE = re.compile(
    r"prompt|completion|sample|token|phrase|parsed|length|reference|KL penalty|temperature"
    r"|\bbeta\b|num_generations|GRPO|TRL",
    re.IGNORECASE,
)

every_framework = over("framework", OF_EPISODES)


def run(framework: str, change: Callable[[Row, int], object], steps: int = 200) -> list[Event]:
    """Return what was said of a run that is in good health but for what is changed."""
    rng = random.Random(0)
    journal = MemoryJournal()
    watched = Monitor("a", [kind() for kind in CATALOGUE], journal, framework=framework)
    for step in range(steps):
        row = {
            "kl_old": 0.01 * rng.lognormvariate(0.0, 0.2),
            "entropy": 0.6 * rng.lognormvariate(0.0, 0.05),
            "critic_loss": 2.0 * rng.lognormvariate(0.0, 0.2),
            "reward": 50.0 + rng.gauss(0.0, 2.0),
            "learning_rate": 3e-4,
        }
        change(row, step)
        watched.log(row, step)
    watched.finish()
    events = [record for record in journal.records if isinstance(record, Event)]
    return [event for event in events if event.event in ("opened", "escalated", "ended")]


def from_step(first: int, **values: float) -> Callable[[Row, int], object]:
    return lambda row, step: step < first or row.update(values)


def larger_gradients(row: Row, step: int) -> None:
    """From step 100 on, the gradient norm is ×50 and the loss ×5."""
    row["grad_norm"] = (25.0 if step >= 100 else 0.5) + 0.01 * (step % 5)
    row["loss"] = (1.0 if step >= 100 else 0.2) + 0.01 * (step % 3)


@every_framework
@over("detector", CATALOGUE)
def test_a_detector_speaks_of_episodes(framework: str, detector: type[Detector]) -> None:
    """In every framework in which it has anything to read."""
    own = advice_of(framework).detectors.get(detector.name, {})
    assert own.keys() <= detector.recommendations.keys()
    if LOGGED.isdisjoint(detector.reads) or detector.watches_all:
        return
    for severity, general in detector.recommendations.items():
        words = OF_LANGUAGE.findall(own.get(severity, general))
        assert words == [], f"{framework} has none of these: see metrics/frameworks/advice.py"


@every_framework
@over("pattern", PATTERNS)
def test_a_pattern_speaks_of_episodes(framework: str, pattern: Pattern) -> None:
    """If all that it goes by is logged there."""
    if not pattern.moved.keys() <= LOGGED or pattern.only == "far":  # which takes a kl
        return
    own = advice_of(framework).patterns.get(pattern.name)
    cause = (own and own.cause) or pattern.cause
    words = OF_LANGUAGE.findall(f"{cause} {own.remedy if own else pattern.remedy}")
    assert words == [], f"{framework} has none of these: see metrics/frameworks/advice.py"


@every_framework
def test_what_is_said_differently_is_known(framework: str) -> None:
    """A name that is misspelt would never be looked up."""
    said = advice_of(framework)
    assert said.detectors.keys() <= {kind.name for kind in CATALOGUE}
    assert said.patterns.keys() <= {pattern.name for pattern in PATTERNS}
    assert said.not_finite.keys() <= METRICS.keys()


@over(
    "change, in_sb3, in_rllib",
    [
        (from_step(100, kl_old=0.5), "target_kl", "kl_target"),
        (from_step(100, entropy=0.001), "ent_coef", "entropy_coeff"),
        (from_step(100, critic_loss=900.0), "lower learning_rate", "lower lr"),
        (from_step(100, critic_loss=math.nan), "VecCheckNan", "lower lr"),
        (from_step(100, reward=math.inf), "VecCheckNan", "environment"),
        (from_step(5, kl_old=0.5), "learning_rate ten times", "lr ten times"),
        (from_step(100, learning_rate=3e-2, kl_old=0.5), "lower learning_rate", "lower lr"),
        (larger_gradients, "lower learning_rate or max_grad_norm", "lower lr or grad_clip"),
    ],
)
def test_an_incident_names_the_settings_of_the_framework(
    change: Callable[[Row, int], object], in_sb3: str, in_rllib: str
) -> None:
    """And nothing that people read is about language models: neither cause nor advice."""
    for framework, setting in (("sb3", in_sb3), ("rllib/PPO", in_rllib)):
        events = run(framework, change)
        assert any(setting in text for event in events for text in advice(event))
        for event in events:
            texts = (*advice(event), event.cause, event.recommendation)
            assert [OF_LANGUAGE.findall(text) for text in texts] == [[]] * len(texts)


def test_elsewhere_the_advice_is_for_language_models() -> None:
    """As it is where the framework is not known."""
    for framework in ("", "trl", "verl"):
        (opened, *_) = run(framework, from_step(100, entropy=0.001))
        assert "samples of the same prompt" in advice(opened)[0]


@over("framework", ["", *OF_EPISODES])
@over("value, severity", [(0.85, "warning"), (5.0, "critical")])
def test_an_incident_of_many_spikes_does_not_say_that_one_is_harmless(
    framework: str, value: float, severity: str
) -> None:
    """It takes five in a row, so the advice is what to do about several."""
    journal = MemoryJournal()
    watched = Monitor("a", [GradientNormSpikeDetector()], journal, framework=framework)
    for step in range(160):
        watched.log({"grad_norm": value if step >= 150 else 0.5 + 0.05 * (step % 5)}, step)
    (event,) = (record for record in journal.records if isinstance(record, Event))
    assert (event.event, event.severity) == ("opened", severity)
    (to_do,) = advice(event)
    assert not re.search(r"single|harmless", to_do)
    assert ("If more spikes follow" in to_do) == (severity == "warning")
