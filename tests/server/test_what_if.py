"""What if: other settings, and what would have been."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml
from serving_runs import RUNS, Client, record, served

import klarm
from klarm.analysis.replay import ids_in, replay
from klarm.config import load
from klarm.sources import read_log


@pytest.fixture
def client() -> Iterator[Client]:
    """Serve a run that explodes."""
    record("exploding")
    with served() as client:
        yield client


def test_without_changes_it_is_what_was_recorded(client: Client) -> None:
    """The same incidents, by the same ids."""
    found = client.post("/runs/exploding/what-if").json
    assert found["alerts_total"] == found["recorded"]["alerts_total"]
    recorded = client.get("/runs/exploding/incidents")["incidents"]
    assert [known["id"] for known in found["incidents"]] == [known["id"] for known in recorded]
    assert found["yaml"] == ""


def test_other_settings_come_to_what_a_replay_does(client: Client) -> None:
    """And the YAML is what klarm.yaml takes."""
    changes = {"kl_explosion": {"sigma_multiplier": 9.0, "baseline_mode": "frozen"}}
    found = client.post("/runs/exploding/what-if", {"settings": changes}).json
    log = RUNS / "exploding" / "journal.jsonl"
    expected = replay(
        read_log(log, print), lambda recorded: load(None, changes, recorded=recorded), ids_in(log)
    )
    assert found["alerts_total"] == len(expected.alerts)
    assert [known["opened"] for known in found["incidents"]] == [
        known.opened.step for known in expected.incidents
    ]
    assert yaml.safe_load(found["yaml"]) == changes


def test_of_a_long_run_the_last_steps_are_tried(client: Client) -> None:
    """As a log of their own."""
    found = client.post("/runs/exploding/what-if", {"last_steps": 100}).json
    assert found["truncated"]
    assert 100 <= found["steps"] <= 300


def test_of_a_long_run_what_was_recorded_is_counted_in_the_same_steps() -> None:
    """Else, less would always be found than was recorded."""
    monitor = klarm.init("long", dir=str(RUNS), console=False)
    for step in range(1, 4001):
        monitor.log({"kl": 9.0 if step == 100 else 0.02 + 0.001 * (step % 3)}, step=step)
    klarm.finish()
    with served() as client:
        every = client.post("/runs/long/what-if").json
        assert every["recorded"]["alerts_total"] > 0
        assert every["first_step"] == 1
        last = client.post("/runs/long/what-if", {"last_steps": 1000}).json
        assert last["first_step"] > 2000
        assert last["recorded"]["alerts_total"] == 0


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"settings": {"kl_explosion": {"sigma_multplier": 4}}}, "did you mean sigma_multiplier?"),
        ({"settings": {"kl_explosion": {"sigma_multiplier": -1}}}, "must be greater than 0"),
        ({"settings": {"channels": {"slack": {}}}}, "is unknown"),
        ({"settings": {"kl_explosion": 3}}, "object"),
        ({"last_steps": 0}, ">= 1 - at `$.last_steps`"),
        ({"more": 1}, "unknown field"),
    ],
)
def test_a_wrong_setting_is_named(client: Client, body: object, said: str) -> None:
    """With its value and the nearest right spelling; channels cannot be tried."""
    answer = client.post("/runs/exploding/what-if", body)
    assert answer.status == 400
    assert said in answer.json["error"]["message"]
