"""What moved, in which order, and what it looks like. Covers pattern.py too."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from cases import over
from klarm.incidents.movement import Movement, told
from klarm.incidents.pattern import Circumstances, Explained, Pattern
from klarm.incidents.playbook import GO_BACK_FIRST, IF_SINGLE, PATTERNS, diagnose
from klarm.incidents.recent_rows import RecentRows
from klarm.incidents.trends import component_movements, movements_of
from klarm.wording import what_moved

DOCS = Path(__file__).parents[2] / "docs"


# How the page puts when a pattern fits at all.
CONDITIONS = {
    "far": "KL over half its budget",
    "harmless": "a warning, and KL under half its budget",
    "critical": "a critical incident",
    "early": "within the first 30 rows",
}


def line_of(movements: Iterable[Movement]) -> str:
    """Return the line of a message about them."""
    return what_moved(told(movements))


def rows(**curves: Callable[[int], float]) -> RecentRows:
    """Return a hundred steps, 600 to 699, of these curves."""
    recent = RecentRows()
    for step in range(600, 700):
        recent.add(step, {name: curve(step) for name, curve in curves.items()})
    return recent


def wobble(step: int) -> float:
    return 1.0 + 0.02 * ((step * 7) % 5 - 2)


def rising_from(start: int, factor: float) -> Callable[[int], float]:
    return lambda step: wobble(step) * (factor if step >= start else 1.0)


def test_the_summary_lists_what_moved_in_order_and_what_did_not() -> None:
    """With when it left what was normal, and how far it is now."""
    recent = rows(kl=rising_from(678, 8.0), grad_norm=rising_from(672, 4.0), reward=wobble)
    assert (
        line_of(movements_of(recent))
        == "grad_norm ×4.1 since step 672, then kl ×8.2 since step 678; no clear change: reward"
    )


def test_what_fell_earlier_and_stayed_there_is_not_said_to_be_unchanged() -> None:
    """Its fall fills the rows that count as normal, so that it looks flat since."""
    recent = rows(
        kl=lambda step: wobble(step) * max(0.04, 0.4 - (step - 600) * 0.008),
        entropy=wobble,
        reward=rising_from(680, 3.0),
    )
    (fell,) = [m for m in movements_of(recent) if m.metric == "kl"]
    assert fell.direction == "flat"
    assert line_of([fell]) == ""
    assert line_of(movements_of(recent)).endswith("; no clear change: entropy")


def test_a_slow_rise_is_measured_from_the_first_of_the_rows_it_names() -> None:
    """People look at the curve a hundred rows back."""
    recent = rows(reward=lambda step: 0.3 + 0.009 * (step - 600) + 0.02 * wobble(step))
    (rose,) = movements_of(recent)
    text = what_moved([rose._replace(pauses=True).gradual()])
    said = re.fullmatch(r"reward up from ([\d.]+) to ([\d.]+) over the last 100 rows", text)
    assert said is not None, text
    assert 0.3 < float(said[1]) < 0.4
    assert float(said[2]) == 1.2


def test_a_past_spike_is_not_a_movement() -> None:
    """Nor is a metric with too few values anything at all."""
    recent = rows(kl=lambda step: 50.0 if step == 680 else wobble(step))
    recent.add(700, {"kl": 1.0, "loss": 3.0})
    assert [(m.metric, m.direction) for m in movements_of(recent)] == [("kl", "flat")]


def test_a_value_that_is_not_finite_is_broken_from_its_first_step() -> None:
    """Whatever comes after it."""
    recent = rows(loss=lambda step: math.nan if step in (650, 690) else wobble(step))
    assert line_of(movements_of(recent)) == "loss not finite since step 650"


def test_a_value_that_was_not_finite_no_longer_matters_after_twenty_finite_ones() -> None:
    """What broke then is no cause of what happens now."""
    for broken, said in ((679, ""), (680, "kl not finite since step 680")):
        recent = rows(kl=lambda step, at=broken: math.nan if step == at else wobble(step))  # type: ignore[misc]
        assert line_of(movements_of(recent)) == said


def test_a_burst_is_reported_with_its_peak_and_its_current_level() -> None:
    """The date of the rise with the factor of the fall after it would be neither."""

    def grad_norm(step: int) -> float:
        return wobble(step) * (1.0 if step < 670 else 11.0 if step < 680 else 0.22)

    def kl(step: int) -> float:
        return wobble(step) * (5.0 if 670 <= step < 680 else 1.0)

    recent = rows(grad_norm=grad_norm, kl=kl)
    line = line_of(movements_of(recent))
    assert line == "kl ×5.1 (now ×1) and grad_norm ×11 (now ×0.22) since step 670"


def test_reward_moves_only_if_the_rise_is_clear_above_its_noise() -> None:
    """Three lucky batches at the end of a slow climb pay for nothing."""

    def climb(step: int) -> float:
        return 0.2 + 0.002 * (step - 600) + 0.1 * math.sin(step * 2.4)

    lucky = rows(reward=lambda step: climb(step) + (0.5 if step >= 697 else 0.0))
    taught = rows(reward=lambda step: climb(step) + (0.5 if step >= 685 else 0.0))
    assert [m.direction for m in movements_of(lucky)] == ["flat"]
    assert [m.direction for m in movements_of(taught)] == ["up"]


def test_a_factor_compares_with_the_level_just_before_its_step() -> None:
    """A reader sees ×5 at step 680, whatever the level was when the run was at half its KL."""

    def kl(step: int) -> float:
        return wobble(step) * 1.02 ** (step - 600) * (5.0 if step >= 680 else 1.0)

    recent = rows(kl=kl, reward=wobble)
    (said,) = re.findall(
        r"kl ×([.\d]+) since step 680; no clear change: reward", line_of(movements_of(recent))
    )
    assert float(said) == pytest.approx(5.0 * 1.02**23, rel=0.05)


def test_a_metric_that_changes_its_sign_is_given_by_its_levels() -> None:
    """A factor of a loss means little."""
    curve = {"loss": lambda step: -0.3 * wobble(step) - (0.4 if step >= 680 else 0.0)}
    assert line_of(movements_of(rows(**curve))) == "loss -0.3 → -0.71 since step 680"
    curve = {"truncated_fraction": lambda step: 0.3 * wobble(step) if step < 680 else 0.0}
    assert line_of(movements_of(rows(**curve))) == "truncated_fraction 0.3 → 0 since step 680"


def test_a_level_below_its_noise_gives_no_factor() -> None:
    """A loss near 0 is up, not up by a factor of -900."""
    recent = rows(loss=lambda step: 0.02 * math.sin(step * 2.4) + (1.0 if step >= 680 else 0.0))
    assert line_of(movements_of(recent)) == "loss 0.0017 → 1 since step 680"


def test_a_learning_rate_that_was_switched_on_moved_at_that_step() -> None:
    """From 0 there is no factor. A warm-up that sets out from 0 is a schedule, as any other."""
    stepped = rows(learning_rate=lambda step: 1e-3 if step >= 620 else 0.0)
    assert line_of(movements_of(stepped)) == "learning_rate up since step 620"
    again = rows(learning_rate=lambda step: 0.0 if step < 620 else 1e-3 if step < 660 else 1e-1)
    assert line_of(movements_of(again)) == "learning_rate ×100 since step 660"
    ramp = rows(learning_rate=lambda step: 1e-5 * max(0, step - 620))
    assert not line_of(movements_of(ramp)).endswith("from step 621")


def test_a_reward_that_rose_before_kl_did_has_not_risen_with_it() -> None:
    """A mean over a hundred episodes rises long after the policy has broken."""

    before, since = rising_from(660, 4.0), rising_from(680, 4.0)
    for reward, name in ((before, "KL ahead of the reward"), (since, "take-off")):
        recent = rows(kl=rising_from(682, 8.0), reward=reward)
        assert {m.metric: m.direction for m in movements_of(recent)} == {"kl": "up", "reward": "up"}
        found = diagnose(movements_of(recent), "kl", budget=100.0)
        assert found is not None
        assert found.name == name


def test_the_advice_on_a_critical_incident_is_not_to_wait() -> None:
    """To watch the reward is advice on a warning."""
    movements = movements_of(rows(kl=rising_from(682, 8.0), reward=wobble))
    for critical, first in ((False, "Watch the reward."), (True, "Lower the learning rate")):
        found = diagnose(movements, "kl", Circumstances(690, critical=critical), budget=100.0)
        assert found is not None
        assert found.remedy.startswith(first)


@over("pattern", PATTERNS)
def test_every_pattern_is_found(pattern: object) -> None:
    """No pattern is hidden by one before it."""
    assert isinstance(pattern, Pattern)
    order = [*pattern.order, *(metric for metric in pattern.moved if metric not in pattern.order)]
    movements = [
        Movement(metric, pattern.moved[metric][0], 600 + 10 * order.index(metric), 2.0, level=0.6)
        for metric in pattern.moved
    ]
    if pattern.cause_metric:
        movements.append(Movement("entropy", "down", 640, 0.5))
    if pattern.only == "far" and "kl" not in pattern.moved:
        movements.append(Movement("kl", "flat", 600, 1.0, level=0.6))
    for signal in pattern.explains:
        far = pattern.only == "far"
        critical = pattern.only != "harmless"
        at = Circumstances(900, critical=critical, early=pattern.only == "early")
        found = diagnose(movements, signal, at, budget=1.0 if far else math.inf)
        assert found is not None
        # On one of them, another may tell more.
        assert found.name == pattern.name or signal != pattern.explains[0]


@over("pattern", PATTERNS)
def test_the_page_says_the_same_of_every_pattern(pattern: Pattern) -> None:
    """What it explains, what moved, the cause and the remedy."""
    rows = [
        line.strip("| ").split(" | ") for line in (DOCS / "playbook.md").read_text().split("\n|")
    ]
    (row,) = [row for row in rows if row[0] == pattern.name] or [[]]
    wrong = f"docs/playbook.md, row of *{pattern.name}*"
    assert row, f"{wrong}: it is missing"
    _, explains, moved, cause, remedy = row
    assert explains == ", ".join(pattern.explains), wrong
    shown = pattern.remedy.format(before="from before the incident")
    assert (cause, remedy.partition(" |")[0]) == (pattern.cause, shown), wrong
    expected = [
        f"{metric} {' or '.join(directions)}"
        for metric, directions in pattern.moved.items()
        if metric != pattern.cause_metric  # which the page explains in a sentence
    ]
    expected += [f"×{factor:g}" for factor in pattern.min_factor.values()]
    if pattern.order:
        expected.append(f"({' before '.join(pattern.order)})")
    if pattern.only in CONDITIONS:
        expected.append(CONDITIONS[pattern.only])
    missing = [words for words in expected if words not in moved]
    assert missing == [], f"{wrong}: its column *what moved* lacks these words"


def test_the_advice_on_a_single_value_is_documented() -> None:
    """In the words of the message."""
    assert IF_SINGLE in (DOCS / "playbook.md").read_text()


def test_order_matters_where_a_pattern_says_so() -> None:
    """Gradients that rise after KL are no cause of it."""
    first = [Movement("grad_norm", "up", 612, 4.0), Movement("kl", "up", 618, 8.0)]
    after = [Movement("grad_norm", "up", 620, 4.0), Movement("kl", "up", 618, 8.0)]
    found, missed = diagnose(first, "kl"), diagnose(after, "kl")
    assert found is not None
    assert found.name == "gradients first"
    assert missed is None
    assert diagnose([], "kl") is None


def test_the_first_movement_may_have_turned_back() -> None:
    """A burst of gradients that threw KL out is a cause though they are low now."""
    burst = Movement("grad_norm", "up", 612, 11.0, ended="down")
    found = diagnose([burst, Movement("kl", "up", 618, 8.0)], "kl")
    assert found is not None
    assert found.name == "gradients first"


def test_a_pattern_explains_its_own_signals_only() -> None:
    """A KL that broke is no cause of an infinite reward."""
    movements = [Movement("kl", "broken", 25, math.nan), Movement("reward", "broken", 40, math.nan)]
    names = {signal: diagnose(movements, signal) for signal in ("kl", "reward", "length")}
    assert {s: pattern and pattern.name for s, pattern in names.items()} == {
        "kl": "KL broken",
        "reward": "reward broken",
        "length": None,
    }


@pytest.mark.parametrize(
    ("critical", "kl", "name"),
    [
        (False, 0.4, "take-off"),
        (False, 0.6, "reward bought with KL"),
        (True, 0.4, "reward bought with KL"),
    ],
)
def test_a_critical_incident_or_a_far_kl_is_never_called_a_take_off(
    critical: bool, kl: float, name: str
) -> None:
    """Far is beyond half the budget."""
    movements = [Movement("kl", "up", 612, 4.0, level=kl), Movement("reward", "up", 615, 2.0)]
    found = diagnose(movements, "kl", Circumstances(critical=critical), budget=1.0)
    assert found is not None
    assert found.name == name


def falling_from(start: int) -> Callable[[int], float]:
    return rising_from(start, 0.2)


def test_the_parts_of_a_reward_that_moved_are_named() -> None:
    """Those that did not are left out: there may be many."""
    curves = {
        "rewards/format/mean": falling_from(672),
        "rewards/accuracy/mean": wobble,
        "train/rewards/length/mean": rising_from(680, 3.0),
        "rewards/format/std": falling_from(660),
        "rewards/mean": falling_from(660),
    }
    found = component_movements(rows(reward=falling_from(672), **curves))
    assert line_of(found) == (
        "rewards/format/mean ×0.2 since step 672, then train/rewards/length/mean ×3 since step 680"
    )


@pytest.mark.parametrize("name", ["loss bursts first", "gradients first", "length hack"])
def test_a_critical_incident_with_an_exploded_kl_is_advised_to_go_back_first(name: str) -> None:
    """A run rarely returns from there by itself; a warning keeps its advice."""
    pattern = next(pattern for pattern in PATTERNS if pattern.name == name)
    moved = [*pattern.order, *(metric for metric in pattern.moved if metric not in pattern.order)]
    movements = [
        Movement(metric, "up", 600 + 10 * moved.index(metric), 4.0, level=3.0) for metric in moved
    ]
    movements += [Movement("kl", "up", 640, 4.0, level=3.0)] if "kl" not in moved else []
    for critical, first in ((True, GO_BACK_FIRST), (False, pattern.remedy)):
        found = diagnose(movements, "kl", Circumstances(650, critical=critical), budget=1.0)
        assert found is not None
        assert (found.name, found.remedy.startswith(first)) == (name, True)


@pytest.mark.parametrize("signal", ["kl", "gradient"])
def test_kl_that_has_risen_makes_a_critical_incident_go_back_first(signal: str) -> None:
    """However far it is from its budget: it shows that these updates did harm."""
    movements = [Movement("grad_norm", "up", 612, 4.0), Movement("kl", "up", 618, 8.0)]
    for critical, first in ((True, GO_BACK_FIRST), (False, "Lower the learning rate, or clip")):
        found = diagnose(movements, signal, Circumstances(620, critical=critical))
        assert found is not None
        assert found.name == "gradients first"
        assert found.remedy.startswith(first)


@pytest.mark.parametrize("name", ["gradients and KL", "gradients and loss"])
def test_a_warning_of_larger_gradients_does_not_ask_to_go_back(name: str) -> None:
    """The detector's advice on it is enough: to check that they are clipped."""
    (pattern,) = (pattern for pattern in PATTERNS if pattern.name == name)
    movements = [Movement(metric, "up", 618, 2.0) for metric in pattern.moved]
    for critical, found in ((True, pattern), (False, None)):
        assert diagnose(movements, "gradient", Circumstances(620, critical=critical)) == found


def test_what_depends_on_how_far_kl_is_is_documented() -> None:
    """In the words of the message."""
    page = (DOCS / "playbook.md").read_text()
    assert f'"{GO_BACK_FIRST.format(before="from before the incident")}"' in page
    for pattern in PATTERNS:
        assert f'"{pattern.cause_if_over}"' in page or not pattern.cause_if_over


def test_an_incident_keeps_its_pattern_while_its_metrics_stay_where_they_went() -> None:
    """They look flat once they have filled the rows looked at."""
    before = Explained("past the optimum", {"kl": (0.02, 0.8), "reward": (0.6, 0.3)})
    kl = Movement("kl", "up", 610, 4.0, level=0.9)
    for level, name in ((0.28, "past the optimum"), (0.55, "KL far ahead of the reward")):
        movements = [kl, Movement("reward", "flat", 690, math.nan, level=level)]
        found = diagnose(movements, "kl", Circumstances(critical=True, before=before), budget=1.0)
        assert found is not None
        assert found.name == name


@pytest.mark.parametrize(("rows_apart", "fits"), [(1, False), (4, False), (5, True), (20, True)])
def test_movements_a_few_rows_apart_have_no_order(rows_apart: int, fits: bool) -> None:
    """Their dates are estimates, and step numbers say nothing about the number of rows."""
    pattern = next(pattern for pattern in PATTERNS if pattern.name == "gradients first")
    moved = [
        Movement("grad_norm", "up", 6_000, 2.0, rows_ago=40),
        Movement("kl", "up", 6_500, 2.0, rows_ago=40 - rows_apart),
    ]
    assert pattern.fits(moved, Circumstances()) is fits
