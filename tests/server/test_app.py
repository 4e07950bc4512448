"""The API over real journals, asked over HTTP: app.py, routes.py and what stands behind them.

overview.py, summary.py, curves.py, history.py, incidents.py, incident_detail.py,
timeline.py, arithmetic.py, configs.py, served_run.py, index.py and problems.py are asked here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
from batches import surviving_rows
from serving_runs import RUNS, Client, record, served, write_steps

import klarm
from klarm.detectors import KLExplosionDetector
from klarm.journal import FileJournal, Fold, Started, new_key
from klarm.types import Command


@pytest.fixture
def client() -> Iterator[Client]:
    """Serve a run that explodes and one that is healthy."""
    record("exploding", framework="trl")
    record("healthy", "healthy", kl_explosion={"sigma_multiplier": 5.0})
    with served() as client:
        yield client


def first_on_kl(client: Client) -> str:
    found = client.get("/runs/exploding/incidents")["incidents"]
    return next(str(known["id"]) for known in found if known["signal"] == "kl")


def test_the_worst_run_is_first(client: Client) -> None:
    """With its worst incident, its place and its curves."""
    overview = client.get("/runs")
    assert [(run["id"], run["health"]) for run in overview["runs"]] == [
        ("exploding", "critical"),
        ("healthy", "ok"),
    ]
    run = overview["runs"][0]
    fold = Fold(RUNS / "exploding" / "journal.jsonl")
    fold.update()
    assert (run["steps"], run["first_step"], run["last_step"]) == (300, 1, 300)
    assert run["activity"] == "finished"
    assert run["framework"] == "trl"
    assert run["worst"]["severity"] == "critical"
    assert run["incidents"]["total"] == len(fold.incidents)
    assert max(run["sparklines"]["kl"]) == pytest.approx(16.22)
    assert len(run["sparklines"]["kl"]) <= 48
    assert client.get("/runs?runs=healthy&sparklines=false")["runs"][0]["sparklines"] == {}


def test_one_run_names_its_metrics(client: Client) -> None:
    """Those that klarm knows first, with their extremes."""
    run = client.get("/runs/exploding")
    kl = run["metrics"][0]
    rows = [row for row in surviving_rows(RUNS / "exploding/journal.jsonl", ["kl"]) if row]
    values = [row[1]["kl"] for row in rows if isinstance(row, tuple)]
    assert kl["name"] == "kl"
    assert (kl["min"], kl["max"], kl["last"]) == (min(values), max(values), values[-1])
    assert kl["meaning"] == "KL of the policy to the reference model"
    assert len(run["processes"]) == 1


def test_series_have_every_value_where_there_is_room(client: Client) -> None:
    """By step and by time, and only of the range asked for."""
    found = client.get("/runs/exploding/series?metrics=kl,reward,nope&from=150&to=160")
    assert found["series"]["kl"]["x"] == [float(step) for step in range(150, 161)]
    assert found["series"]["nope"]["x"] == []
    by_time = client.get("/runs/exploding/series?axis=time")
    assert by_time["series"]["kl"]["count"] == 300
    assert by_time["series"]["kl"]["x"] == sorted(by_time["series"]["kl"]["x"])


def test_the_baseline_is_what_the_detector_measures_by(client: Client) -> None:
    """Step by step."""
    found = client.get("/runs/exploding/baseline?width=10000")
    detector = KLExplosionDetector()
    means = {}
    for row in surviving_rows(RUNS / "exploding/journal.jsonl", ["kl"]):
        assert isinstance(row, tuple)
        detector.update(*row)
        means[float(row[0])] = (detector.mean, detector.spread)
    assert len(found["x"]) == 300 - 20
    for x, mean, std, warning in zip(
        found["x"], found["mean"], found["std"], found["warning"], strict=True
    ):
        assert (mean, std) == pytest.approx(means[x])
        assert warning == pytest.approx(mean + 3 * std)
    assert found["limits"][0] == {"detector": "kl_budget", "severity": "warning", "value": 1.0}
    assert len(client.get("/runs/exploding/baseline?width=5")["x"]) == 5
    other = client.get("/runs/exploding/baseline?detector=gradient_norm_spike")
    assert (other["metric"], other["baseline_mode"]) == ("grad_norm", "frozen")


def test_the_budget_of_each_kl_is_drawn_beside_its_own_curve() -> None:
    """The probe's KL has a budget of its own, with the settings of the run."""
    klarm.init("probed", dir=str(RUNS), console=False, kl_probe_budget={"budget_nats": 0.5})
    for step in range(40):
        klarm.log({"kl_probe": 0.01, "kl": 0.02}, step)
    klarm.finish()
    with served() as client:
        found = client.get("/runs/probed/baseline?detector=kl_probe_explosion")
        of_trainer = client.get("/runs/probed/baseline?detector=kl_explosion")["limits"]
    assert found["metric"] == "kl_probe"
    assert found["limits"] == [
        {"detector": "kl_probe_budget", "severity": "warning", "value": 0.5},
        {"detector": "kl_probe_budget", "severity": "critical", "value": 1.0},
    ]
    assert [limit["detector"] for limit in of_trainer] == ["kl_budget", "kl_budget"]


def test_alerts_can_be_picked(client: Client) -> None:
    """By step, detector and severity; of many, the latest."""
    every = client.get("/runs/exploding/alerts")
    assert every["total"] == len(every["alerts"])
    few = client.get("/runs/exploding/alerts?detector=kl_explosion&severity=critical&limit=2")
    assert few["truncated"]
    assert {alert["detector"] for alert in few["alerts"]} == {"kl_explosion"}
    assert all(set(alert) == set(few["alerts"][0]) for alert in few["alerts"])
    early = client.get("/runs/exploding/alerts?to=160")["alerts"]
    assert max(alert["step"] for alert in early) <= 160


def test_an_incident_tells_all_there_is(client: Client) -> None:
    """From its first alert to the end of the run, with numbers, cause, advice and checkpoint."""
    found = client.get(f"/runs/exploding/incidents/{first_on_kl(client)}")
    assert [moment["event"] for moment in found["timeline"]][:2] == ["pending", "opened"]
    assert found["timeline"][-1]["event"] == "ended"
    assert all(moment["text"].endswith(".") for moment in found["timeline"])
    by_z = next(a for a in found["arithmetic_of_others"] if a["detector"] == "kl_explosion")
    assert by_z["z"] == pytest.approx((by_z["value"] - by_z["mean"]) / by_z["std"])
    assert by_z["critical_at"] > by_z["warning_at"] > by_z["mean"]
    assert by_z["formula"].count("=") == 1
    assert "learning_rate" in found["moved"]["metrics"]
    assert found["moved"]["from"] < found["started"] < found["moved"]["to"]
    assert found["diagnosis"]["pattern"] == "learning rate raised"
    assert found["diagnosis"]["cause"] == "the learning rate was raised"
    assert found["advice"] == [
        "Go back to a checkpoint from before step 152, and lower the learning rate."
    ]
    assert found["diagnosis"]["remedy"].startswith("Go back to a checkpoint ")
    assert found["checkpoint"] == {"step": 150, "path": "/data/150"}
    assert found["alerts"]["total"] == sum(found["alerts"]["by_detector"].values())
    assert client.get(f"/incidents/{found['id']}") == found


def test_what_moved_is_drawn_where_it_was_reported(client: Client) -> None:
    """Up to the event that says so: here the incident has escalated since it opened."""
    found = client.get(f"/runs/exploding/incidents/{first_on_kl(client)}")
    events = [moment for moment in found["timeline"] if moment["event"] in ("opened", "escalated")]
    assert len(events) > 1
    moved = found["moved"]
    assert (moved["event"], moved["step"]) == (events[-1]["event"], events[-1]["step"])
    assert moved["from"] < found["started"] < moved["step"] < moved["to"]


def test_a_level_that_was_accepted_is_the_baseline_from_there_on() -> None:
    """As the detector of the run has learnt it."""
    monitor = klarm.init("a", dir=str(RUNS), console=False)
    for step in range(1, 101):
        monitor.log({"kl": 0.02 + 0.001 * (step % 3)}, step=step)
    for step in range(101, 121):
        monitor.log({"kl": 0.5 + 0.01 * (step % 3)}, step=step)
    (incident,) = [known for known in monitor.incidents if known.signal == "kl"]
    monitor.hand_over(
        Command(command="accept", key=new_key(), time=1.0, by="ada", incident=incident.id)
    )
    for step in range(121, 200):
        monitor.log({"kl": 0.5 + 0.01 * (step % 3)}, step=step)
    with served() as client:
        for axis in ("step", "time"):
            found = client.get(f"/runs/a/baseline?width=10000&axis={axis}")
            assert found["mean"][-1] == pytest.approx(0.51, abs=0.01)
    detector = next(one for one in monitor.detectors if one.name == "kl_explosion")
    assert found["mean"][-1] == pytest.approx(detector.mean)
    klarm.finish()


def test_checkpoints_in_an_incident_are_unsafe(client: Client) -> None:
    """Those before it are not."""
    found = client.get("/runs/exploding/checkpoints")["checkpoints"]
    assert {saved["step"]: saved["unsafe"] for saved in found} == {
        50: False,
        100: False,
        150: False,
        200: True,
        250: True,
        300: True,
    }


def test_of_a_channel_only_what_differs_is_listed_as_changed() -> None:
    """Its type and its secret always do. A kind that is not installed has fewer defaults."""
    url = "https://hooks.slack.com/services/a/b/c"
    record("a", rows=3, channels={"slack": {"webhook_url": url, "severity": "critical"}})
    settings = {"type": "pigeon", "severity": "warning", "signals": [], "grain": "corn"}
    journal = FileJournal(RUNS / "b", print)
    journal.record(Started("b", 1.0, "0.2.0", "node", {"channels": {"a.b": settings}}))
    journal.close(5.0)
    with served() as client:
        changed = {found["setting"]: found for found in client.get("/runs/a/config")["changed"]}
        strange = [found["setting"] for found in client.get("/runs/b/config")["changed"]]
    of_slack = [name for name in changed if name.startswith("channels.")]
    assert of_slack == [f"channels.slack.{name}" for name in ("type", "severity", "webhook_url")]
    assert changed["channels.slack.severity"]["default"] == "warning"
    assert strange == ["channels.a.b.type", "channels.a.b.grain"]


def test_settings_and_how_they_differ(client: Client) -> None:
    """What is not as klarm has it, and where two runs are not alike."""
    config = client.get("/runs/healthy/config")
    assert {
        "setting": "kl_explosion.sigma_multiplier",
        "value": 5.0,
        "default": 3.0,
    } in config["changed"]
    assert not [found for found in config["changed"] if found["value"] == found["default"]]
    compared = client.get("/compare?runs=exploding,healthy")
    assert [found["setting"] for found in compared["differences"]] == [
        "framework",
        "kl_explosion.sigma_multiplier",
    ]
    assert compared["differences"][1]["values"] == {"exploding": 3.0, "healthy": 5.0}
    assert compared["runs"][0]["incident"]["step"] == 152
    assert compared["runs"][1]["incident"] is None
    names = [section["name"] for section in client.get("/settings")["sections"]]
    assert "kl_explosion" in names
    assert "incidents" in names


def test_what_training_went_back_on_is_not_shown() -> None:
    """Neither steps nor checkpoints; alerts and incidents say so."""
    monitor = klarm.init("back", dir=str(RUNS), console=False)
    for step in range(1, 61):
        monitor.log({"kl": 0.01 if step < 50 else math.nan}, step=step)
        if step in (20, 40):
            monitor.checkpoint(step, f"/data/{step}")
    for step in range(31, 41):
        monitor.log({"kl": 0.02}, step=step)
    klarm.finish()
    with served() as client:
        run = client.get("/runs/back")
        assert (run["steps"], run["last_step"], run["rolled_back"]) == (40, 40, 30)
        assert run["health"] == "ok"
        kl = client.get("/runs/back/series")["series"]["kl"]
        assert kl["x"] == [float(step) for step in range(1, 41)]
        assert kl["y"][-1] == 0.02
        assert kl["non_finite"] == []
        assert client.get("/runs/back/rollbacks")["rollbacks"][0]["last"] == 60
        saved = client.get("/runs/back/checkpoints")["checkpoints"]
        assert [known["counts"] for known in saved] == [True, False]
        incidents = client.get("/runs/back/incidents")["incidents"]
        assert [known["state_text"] for known in incidents] == ["rolled back"]
        # The steps that it was about, not the one that training went back to.
        assert [(known["started"], known["ended"]) for known in incidents] == [(50, 60)]
        assert incidents[0]["ended_time"] is None
        alerts = client.get("/runs/back/alerts?from=50")["alerts"]
        assert alerts
        assert all(alert["rolled_back"] for alert in alerts)


def test_numbers_that_json_cannot_hold_are_text() -> None:
    """As in the journal."""
    write_steps("nan", {1: {"kl": 0.5, "reward": 1.0}, 2: {"kl": math.nan, "reward": 2.0}})
    with served() as client:
        run = client.get("/runs")["runs"][0]
        assert run["latest"] == {"kl": "NaN", "reward": 2.0}
        assert run["sparklines"]["kl"] == [0.5, None]
        found = client.get("/runs/nan/series?metrics=kl")["series"]["kl"]
        assert found["non_finite"] == [{"x": 2.0, "value": "NaN"}]


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/runs/nope", 404, "not_found"),
        ("/runs/exploding/incidents/nope", 404, "not_found"),
        ("/incidents/nope", 404, "not_found"),
        ("/compare?runs=exploding", 400, "bad_request"),
        ("/compare?runs=exploding,nope", 404, "not_found"),
        ("/runs/exploding/series?width=0", 400, "bad_request"),
        ("/runs/exploding/series?from=9&to=1", 400, "bad_request"),
        ("/runs/exploding/series?axis=space", 400, "bad_request"),
        ("/runs?unknown=1", 400, "bad_request"),
        ("/nothing", 404, "not_found"),
    ],
)
def test_what_cannot_be_answered_says_why(
    client: Client, path: str, status: int, code: str
) -> None:
    """In JSON, naming what is wrong."""
    answer = client.ask(f"/api/v1{path}")
    assert (answer.status, answer.json["error"]["code"]) == (status, code)
    assert answer.json["error"]["message"]


def test_a_method_that_is_not_there_is_said(client: Client) -> None:
    """With the ones that are."""
    answer = client.ask("/api/v1/runs", "DELETE")
    assert (answer.status, answer.json["error"]["code"]) == (405, "method_not_allowed")


def test_long_answers_are_compressed_for_who_takes_it(client: Client) -> None:
    """Not for others."""
    assert "Content-Encoding" not in client.ask("/api/v1/settings").headers
    answer = client.ask("/api/v1/settings", Accept_Encoding="gzip")
    assert answer.headers["Content-Encoding"] == "gzip"
