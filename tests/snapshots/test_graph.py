"""graph.py captures any state of klarm's own objects, and state.py misses no attribute."""

from __future__ import annotations

import gc
import sys
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, is_dataclass
from typing import ClassVar

import pytest
from random_runs import RandomRun

from klarm.config.layers import load
from klarm.detectors import CATALOGUE, Detector, KLExplosionDetector
from klarm.incidents import IncidentRules, Tracker
from klarm.metrics import METRICS, Origin
from klarm.monitor.evaluator import Evaluator
from klarm.settings import settings_of
from klarm.snapshots import Capture, Restore, UnfitError, pack_state, unpack_state
from klarm.snapshots.state import state_names
from klarm.stats import SlidingMoments
from klarm.types import Alert
from made_alerts import made_alert


def carried_over(part: object, fresh: object) -> None:
    state = pack_state(Capture({"part": part}).data)
    Restore(unpack_state(state), {"part": fresh})


class Parts:
    """An object of klarm's own, for these tests."""

    __module__ = "klarm.stats.parts"

    def __init__(self) -> None:
        self.window = deque([1.0, float("nan")], maxlen=5)
        self.same = self.window
        self.append = self.window.append
        self.moments = SlidingMoments(3)
        self.update = self.moments.update
        self.by_kind: dict[tuple[str, str], set[str]] = {("kl", "higher"): {"a"}}
        self.mixed = [None, True, 2**62, -0.0, "NaN", (1, (2.0, [])), frozenset({3})]


def test_what_is_shared_stays_shared_and_what_is_bound_stays_bound() -> None:
    """A method that was looked up at construction belongs to the window that is restored."""
    original, restored = Parts(), Parts()
    for value in (5.0, 7.0):
        original.append(value)
        original.update(value)
    carried_over(original, restored)
    restored.append(8.0)
    restored.update(9.0)
    assert list(restored.same)[2:] == [5.0, 7.0, 8.0]
    assert restored.same is restored.window
    assert restored.window.maxlen == 5
    assert restored.moments.mean == 7.0
    assert restored.by_kind == original.by_kind
    assert repr(restored.mixed) == repr(original.mixed)


def test_what_came_apart_comes_apart_again() -> None:
    """Two names of one list at the start may be two lists later."""
    original, restored = Parts(), Parts()
    original.same = deque([4.0], maxlen=5)
    carried_over(original, restored)
    assert (list(restored.same), len(restored.window)) == ([4.0], 2)


@pytest.mark.parametrize("kind", CATALOGUE, ids=lambda kind: kind.name)
def test_every_detector_can_be_captured(kind: type[Detector]) -> None:
    """One that fails here holds what is no data: say in its `_start` what it has learnt."""
    original, restored = kind(), kind()
    for step in range(200):
        original.update(step, dict.fromkeys(METRICS, 0.5 + step * 7 % 13 / 100))
    carried_over(original, restored)
    for step in range(200, 300):
        row = dict.fromkeys(METRICS, (0.5 + step % 13 / 100) * (1 + (step > 250) * 50))
        assert repr(restored.update(step, row)) == repr(original.update(step, row))
        assert restored.score == original.score


@dataclass(kw_only=True, eq=False)
class OwnDetector(Detector):
    """One of a user's own."""

    name: ClassVar[str] = "own"
    signal: ClassVar[str] = "kl"
    watches: ClassVar[tuple[str, ...]] = ("kl",)

    def _start(self) -> None:
        self.total = 0.0

    def _observe(self, step: int, value: float) -> Alert | None:
        self.total += value
        return None


@dataclass(kw_only=True, eq=False)
class OwnDetectorWithState(OwnDetector):
    """One that says what it has learnt."""

    def get_state(self) -> object:
        return {"total": self.total}

    def set_state(self, state: Mapping[str, float]) -> None:
        self.total = state["total"]


def test_a_detector_of_the_users_own_is_captured_if_it_says_how() -> None:
    """Else nobody knows what its attributes mean, and the journal is read."""

    def evaluator(detector: Detector) -> Evaluator:
        made = Evaluator([detector], IncidentRules())
        made.bind({"kl": Origin("kl")})
        return made

    with pytest.raises(UnfitError, match="detector own has no get_state"):
        evaluator(OwnDetector()).capture()
    original, restored = evaluator(OwnDetectorWithState()), evaluator(OwnDetectorWithState())
    original.look(0, {"kl": 0.25})
    restored.restore(unpack_state(pack_state(original.capture())))
    assert restored.detectors[0].total == 0.25  # type: ignore[attr-defined]


def judged_run() -> Evaluator:
    """A run that is in the middle of several incidents."""
    config = load()
    made = Evaluator(config.detectors(), config.incident_rules())
    made.bind({name: Origin(name) for name in METRICS})
    run = RandomRun(0)
    run.acts(200)
    for step, row in sorted(run.rows.items()):
        made.look(step, row)
    assert made.tracker.incidents
    return made


def test_no_attribute_is_overlooked() -> None:
    """They are found by their names in the code, which `vars` of the same objects must confirm."""
    evaluator = judged_run()
    walked = Capture(evaluator._parts)
    objects = [*evaluator._parts.values(), *walked._kept]
    ours = [held for held in objects if hasattr(held, "__dict__")]
    assert len(ours) > 30
    for held in ours:
        settings = {*settings_of(type(held))} if is_dataclass(held) else set[str]()
        settings.add("_explicit")  # which of the settings the constructor was given
        assert set(state_names(held)) == vars(held).keys() - settings, type(held)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="3.10 knows one form of attributes only")
def test_attributes_keep_their_compact_form() -> None:
    """An object that was asked for its `__dict__` refers to that, and is slower from then on."""
    evaluator = judged_run()
    before = [len(gc.get_referents(detector)) for detector in evaluator.detectors]
    evaluator.capture()
    assert [len(gc.get_referents(detector)) for detector in evaluator.detectors] == before
    vars(evaluator.detectors[0])
    assert len(gc.get_referents(evaluator.detectors[0])) != before[0]


def test_what_is_no_data_is_refused() -> None:
    """A file, a lock, or a number that msgpack cannot hold."""
    for strange in (object(), 2**70, lambda: 0):
        part = Parts()
        part.mixed = [strange]
        with pytest.raises(UnfitError):
            pack_state(Capture({"part": part}).data)


def test_only_classes_of_klarm_are_made() -> None:
    """Whatever a file says."""
    for name in ("os:system", "subprocess:Popen", "klarm.stats.streaming:deque", "klarm.stats:x"):
        state = {"classes": [[name, []]], "keys": [], "parts": {"part": {}}}
        with pytest.raises(UnfitError, match="is not known"):
            Restore(state, {"part": Parts()})


def test_an_incident_with_renamed_attributes_is_refused() -> None:
    """It is created without its `__init__`, so the new attribute would be missing."""
    trackers = [Tracker([KLExplosionDetector()], IncidentRules()) for _ in range(2)]
    decisive = made_alert({"kl": 5.0}, step=1, decisive=True)
    assert trackers[0].update(1, {"kl": 5.0}, [decisive])
    state = Capture(trackers[0].parts).data
    (names,) = [names for name, names in state["classes"] if name.endswith(":Episode")]
    names[names.index("notified_kinds")] = "an_earlier_name"
    with pytest.raises(UnfitError, match="Episode has other attributes"):
        Restore(state, trackers[1].parts)


def test_a_state_of_other_attributes_or_detectors_is_refused() -> None:
    """As one of an earlier version is. The evaluator is then as new."""
    config = load()
    evaluators = [Evaluator(config.detectors(), config.incident_rules()) for _ in range(2)]
    state = evaluators[0].capture()
    del state["parts"]["detector kl_explosion"]["_seen"]
    with pytest.raises(UnfitError, match="detector kl_explosion has other attributes"):
        evaluators[1].restore(state)
    del state["parts"]["detector kl_explosion"]
    with pytest.raises(UnfitError, match="other detectors"):
        evaluators[1].restore(state)
    for nonsense in ({}, {"parts": {}}, {"classes": [], "keys": [], "parts": 5}):
        with pytest.raises(UnfitError):
            evaluators[1].restore(nonsense)
    assert pack_state(evaluators[1].capture()) == pack_state(evaluators[0].capture())
