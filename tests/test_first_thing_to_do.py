"""Every piece of advice begins with the first thing to do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from klarm.detectors import CATALOGUE, when_not_finite
from klarm.incidents.playbook import PATTERNS
from klarm.metrics import FRAMEWORKS, METRICS, advice_of

# What one can do. A condition, an explanation or a verdict comes after it.
ORDERS = (
    *("Act now: lower", "Check", "Clamp", "Clip", "Compare", "Find", "Go back", "Look at"),
    *("Lower", "Make", "Raise", "Read", "Start again", "Stop", "Watch"),
)


def pieces() -> Iterator[tuple[str, str]]:
    for kind in CATALOGUE:
        for severity, text in kind.recommendations.items():
            yield f"{kind.name}, {severity}", text
    for metric in METRICS:
        yield f"{metric} not finite", when_not_finite(metric)
    for pattern in PATTERNS:
        yield pattern.name, pattern.remedy
    for framework in FRAMEWORKS:
        own = advice_of(framework)
        for detector, by_severity in own.detectors.items():
            for severity, text in by_severity.items():
                yield f"{framework}: {detector}, {severity}", text
        for name, explanation in own.patterns.items():
            yield f"{framework}: {name}", explanation.remedy
        for metric, text in own.not_finite.items():
            yield f"{framework}: {metric} not finite", text


@pytest.mark.parametrize(("place", "text"), list(dict(pieces()).items()))
def test_the_first_words_are_the_first_thing_to_do(place: str, text: str) -> None:
    """Somebody who is woken at night reads them first, and perhaps nothing else."""
    assert text.startswith(ORDERS), place


@pytest.mark.parametrize(
    ("place", "text"),
    [(place, text) for place, text in dict(pieces()).items() if place.endswith("critical")],
)
def test_the_advice_on_a_critical_incident_acts_on_the_run(place: str, text: str) -> None:
    """Reading samples and watching the next steps are for warnings."""
    assert not text.startswith(("Compare", "Read", "Watch")), place
