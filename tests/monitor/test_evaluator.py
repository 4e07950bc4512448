"""The watch: what it says of a step, and that it can be taken back."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping

import numpy as np

from cases import over
from klarm.detectors import KLExplosionDetector, LossNanDetector
from klarm.incidents.rules import IncidentRules
from klarm.journal.identity import counting_ids
from klarm.journal.incident import IncidentRecord
from klarm.metrics.kl_kind import Kind, Origin
from klarm.monitor.evaluator import Evaluator
from klarm.types import Alert, Event
from made_alerts import made_alert


def watch() -> Evaluator:
    detectors = [KLExplosionDetector(), LossNanDetector()]
    made = Evaluator(detectors, IncidentRules(), ids=counting_ids())
    made.bind({"kl": Origin("kl"), "loss": Origin("loss")})
    return made


def test_a_step_brings_alerts_and_what_they_change() -> None:
    """A NaN opens an incident at once; the metric itself is not what else moved."""
    (alert,), (opened,) = watch().look(3, {"loss": math.nan})
    assert (alert.detector, alert.step) == ("loss_nan", 3)
    assert isinstance(opened, Event)
    assert (opened.event, opened.moved) == ("opened", "")


@over("cast", [int, np.float64, np.float32, np.int64, np.array])
def test_numbers_of_any_kind_count_as_floats(cast: Callable[[float], object]) -> None:
    """A detector of the user's own may compute with numpy; what is no number is left out."""
    metrics = {"loss": cast(3.0), "mode": "rolling", "odd": object()}
    alert = made_alert(metrics, step=1, detector="loss_nan", decisive=True)

    class Own(LossNanDetector):
        def update(self, step: int, metrics: Mapping[str, float]) -> Alert | None:
            return alert

    made = Evaluator([Own()], IncidentRules())
    made.bind({"loss": Origin("loss")})
    (said,), (opened,) = made.look(1, {"loss": 3.0})
    assert said.metrics == {"loss": 3.0, "mode": "rolling"}
    assert type(said.metrics["loss"]) is float
    assert isinstance(opened, Event)
    assert opened.peak == 3.0


def test_detectors_without_anything_logged_are_not_asked() -> None:
    """A metric that is bound later brings them in."""
    made = Evaluator([LossNanDetector()], IncidentRules())
    assert made.look(0, {"loss": math.nan}) == ([], [])
    made.bind({"loss": Origin("actor/pg_loss")})
    assert made.look(1, {"loss": math.nan})[0]


def test_only_keys_that_are_not_plain_from_the_name_are_worth_recording() -> None:
    """And a name of its own where it was another before."""
    made = Evaluator([], IncidentRules())
    kl = Origin("objective/kl")
    assert made.bind({"kl": kl, "loss": Origin("loss")}) == {"kl": kl}
    assert made.bind({"kl": kl, "loss": Origin("loss")}) == {}
    assert made.bind({"kl": Origin("kl")}) == {"kl": Origin("kl")}


def test_a_kind_is_worth_recording_whatever_the_key() -> None:
    """Also when the kind alone changed, or is no longer known."""
    made = Evaluator([], IncidentRules())
    kl = Origin("kl", Kind("reference", "k3"))
    assert made.bind({"kl": kl}) == {"kl": kl}
    assert made.bind({"kl": kl}) == {}
    assert made.bind({"kl": Origin("kl")}) == {"kl": Origin("kl")}


def test_taken_back_it_is_where_it_was() -> None:
    """It says the same of the steps to come, and takes back what it said of those undone."""
    rng = random.Random(1)
    rows = [(step, {"kl": rng.lognormvariate(-3, 0.4)}) for step in range(300)]
    straight, undone = watch(), watch()
    for step, values in rows[:200]:
        assert straight.look(step, values) == undone.look(step, values)
    _, (opened,) = undone.look(200, {"kl": math.nan})
    assert [incident.state for incident in undone.tracker.critical] == ["open"]
    assert isinstance(opened, Event)
    recorded = [IncidentRecord.of(opened)]
    (resolved,) = undone.rebuild([*rows[:200], (200, {"kl": math.nan})], recorded, 200)
    assert isinstance(resolved, Event)
    assert (resolved.event, resolved.incident, resolved.reason) == ("resolved", 1, "rolled_back")
    assert undone.tracker.incidents == []
    for step, values in rows[200:]:
        assert straight.look(step, values)[0] == undone.look(step, values)[0]
