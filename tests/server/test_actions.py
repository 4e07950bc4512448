"""Acting on the page goes the way of the commands: actions.py and false_alarms.py."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from serving_runs import RUNS, Client, record, served, wait_until

import klarm
from klarm.cli.demo import read_recording
from klarm.journal import Fold, checked, read_commands
from klarm.runs import marked
from klarm.store import FolderStore


@pytest.fixture
def client() -> Iterator[Client]:
    """Serve a run that ended with incidents open."""
    record("exploding")
    with served() as client:
        yield client


def open_incident(client: Client) -> str:
    found = client.get("/runs/exploding/incidents")["incidents"]
    return next(str(known["id"]) for known in found if known["is_open"])


def test_acknowledging_appends_a_command(client: Client) -> None:
    """Which the page shows at once, and the journal is left alone."""
    journal = (RUNS / "exploding/journal.jsonl").read_bytes()
    id_ = open_incident(client)
    answer = client.post(f"/runs/exploding/incidents/{id_}/ack", {"by": "ada"})
    assert answer.json["applied"] == "now"
    assert "acknowledged by ada" in answer.json["text"]
    (command,) = [command for _, command in read_commands(RUNS / "exploding")]
    assert (command.command, command.incident, command.by) == ("ack", id_, "ada")
    found = client.get(f"/runs/exploding/incidents/{id_}")
    assert found["acknowledged_by"] == ["ada"]
    assert found["commands_pending"] == []  # no step will come for which it would wait
    assert found["timeline"][-1]["text"] == "Acknowledged by ada."
    assert (RUNS / "exploding/journal.jsonl").read_bytes() == journal


def test_an_acknowledgement_is_taken_back(client: Client) -> None:
    """At once, and once: there must be one."""
    id_ = open_incident(client)
    path = f"/runs/exploding/incidents/{id_}/ack"
    assert client.post(path, method="DELETE").status == 409
    client.post(path, {"by": "ada"})
    answer = client.post(path, method="DELETE")
    assert answer.json == {"applied": "now", "text": answer.json["text"]}
    assert answer.json["text"].endswith("is no longer acknowledged")
    found = client.get(f"/runs/exploding/incidents/{id_}")
    assert found["acknowledged_by"] == []
    assert found["timeline"][-1]["text"].endswith(" took the acknowledgement back.")
    client.post(path, {"by": "bob"})
    klarm.init("exploding", dir=str(RUNS), console=False)  # the run applies them in their order
    klarm.log({"kl": 0.3}, step=301)
    klarm.finish()
    wait_until(lambda: client.get("/runs/exploding")["last_step"] == 301)
    assert client.get(f"/runs/exploding/incidents/{id_}")["acknowledged_by"] == ["bob"]


@pytest.mark.parametrize(("accept", "became"), [(False, "closed"), (True, "accepted")])
def test_closing_an_incident_of_a_run_at_rest(client: Client, accept: bool, became: str) -> None:
    """It shows at once, and is in the journal for every other command."""
    before = client.get("/runs")["runs"][0]["incidents"]["open"]
    last_seen = client.get("/runs")["runs"][0]["last_seen"]
    id_ = open_incident(client)
    answer = client.post(f"/runs/exploding/incidents/{id_}/close", {"by": "ada", "accept": accept})
    assert (answer.status, answer.json["applied"]) == (200, "now")
    found = client.get(f"/runs/exploding/incidents/{id_}")
    assert (found["state"], found["state_text"], found["by"]) == ("resolved", became, "ada")
    wait_until(lambda: client.get("/runs")["runs"][0]["incidents"]["open"] == before - 1)
    # Nobody has trained it meanwhile.
    assert client.get("/runs")["runs"][0]["last_seen"] == last_seen
    fold = Fold(RUNS / "exploding/journal.jsonl")
    fold.update()
    assert fold.incidents[id_].reason == became  # what other commands see
    again = client.post(f"/runs/exploding/incidents/{id_}/close")
    assert again.status == 409
    klarm.init("exploding", dir=str(RUNS), console=False)
    klarm.log({"kl": 0.3}, step=301)
    klarm.finish()
    wait_until(lambda: client.get("/runs/exploding")["last_step"] == 301)
    assert client.get(f"/runs/exploding/incidents/{id_}")["reason"] == became
    assert client.get(f"/runs/exploding/incidents/{id_}")["commands_pending"] == []


def test_the_peak_of_an_open_incident_is_the_worst_value_so_far() -> None:
    """The last event is of the step at which people were notified."""
    monitor = klarm.init("live", dir=str(RUNS), console=False)
    for step in range(130):
        monitor.log({"kl": (0.02 + step % 3 / 1000) * 1.2 ** max(0, step - 100)}, step)
    with served() as client:
        (found,) = client.get("/runs/live/incidents")["incidents"]
        assert found["is_open"]
        assert found["peak"] == (0.02 + 129 % 3 / 1000) * 1.2**29
    klarm.finish()


def test_a_run_that_trains_closes_it_with_its_next_step() -> None:
    """Until then, the page says that it was asked for."""
    monitor = klarm.init("live", dir=str(RUNS), console=False)
    rows = read_recording("exploding")
    for row in rows[:170]:
        monitor.log(row, step=row["step"])
    with served() as client:
        known = client.get("/runs/live/incidents")["incidents"]
        id_ = next(incident["id"] for incident in known if incident["is_open"])
        answer = client.post(f"/runs/live/incidents/{id_}/close", {"by": "ada"})
        assert answer.json["applied"] == "next_step"
        found = client.get(f"/runs/live/incidents/{id_}")
        assert found["is_open"]
        assert [waiting["command"] for waiting in found["commands_pending"]] == ["close"]

        later = iter(rows[170:])

        def logged_on() -> bool:
            row = next(later)
            monitor.log(row, step=row["step"])
            return client.get(f"/runs/live/incidents/{id_}")["reason"] == "closed"

        wait_until(logged_on)
        klarm.finish()


def test_silencing_a_signal_and_ending_it(client: Client) -> None:
    """For steps or for a while."""
    answer = client.post("/runs/exploding/silences", {"signal": "kl", "for": "2h", "by": "ada"})
    assert answer.json["text"].startswith("kl is silenced until")
    (silence,) = client.get("/runs/exploding")["silences"]
    assert (silence["signal"], silence["by"], silence["even_critical"]) == ("kl", "ada", False)
    client.post(
        "/runs/exploding/silences",
        {"signal": "gradient", "for": "200 steps", "even_critical": True},
    )
    found = client.get("/runs/exploding/incidents")["incidents"]
    assert [k["silenced"] for k in found if k["signal"] == "gradient" and k["is_open"]] == [True]
    answer = client.post("/runs/exploding/silences", {"signal": "grad_norm", "for": "2h"})
    assert answer.json["text"].startswith("gradient is silenced until")
    assert client.post("/runs/exploding/silences/kl", method="DELETE").status == 200
    assert client.post("/runs/exploding/silences/kl", method="DELETE").status == 409


@pytest.mark.parametrize(
    ("body", "parameter"),
    [
        ({"signal": "kll", "for": "2h"}, "signal"),
        ({"signal": "kl", "for": "soon"}, "for"),
        ({"signal": "kl", "for": "2h", "by": "a" * 500}, "by"),
    ],
)
def test_a_silence_that_cannot_be_is_refused(
    client: Client, body: dict[str, str], parameter: str
) -> None:
    """With what is wrong."""
    answer = client.post("/runs/exploding/silences", body)
    assert (answer.status, answer.json["error"]["parameter"]) == (400, parameter)


def test_a_false_alarm_is_marked_beside_the_run(client: Client) -> None:
    """And can be taken back; every line has a checksum."""
    id_ = open_incident(client)
    path = f"/runs/exploding/incidents/{id_}/false-alarm"
    assert client.post(path, method="DELETE").status == 409
    client.post(path, {"note": "the reward was rescaled", "by": "ada"}, "PUT")
    found = client.get(f"/runs/exploding/incidents/{id_}")["false_alarm"]
    assert (found["by"], found["note"]) == ("ada", "the reward was rescaled")
    assert client.post(path, {"note": "a" * 3000}, "PUT").status == 400
    file = RUNS / "exploding" / "false_alarms.jsonl"
    file.write_bytes(file.read_bytes() + b'{"type":"false_alarm"}\nnonsense\n')
    assert id_ in marked(FolderStore(RUNS), "exploding")
    assert client.post(path, method="DELETE").status == 200
    assert client.get(f"/runs/exploding/incidents/{id_}")["false_alarm"] is None
    verdicts = [checked(line) for line in file.read_bytes().splitlines()]
    assert verdicts == ["good", "none", "none", "good"]


def test_a_command_that_cannot_be_written_is_said(client: Client) -> None:
    """With a 503, and nothing is pretended. A folder is in the way: root may write anywhere."""
    id_ = open_incident(client)
    (RUNS / "exploding/commands.jsonl").mkdir()
    answer = client.post(f"/runs/exploding/incidents/{id_}/ack")
    assert (answer.status, answer.json["error"]["code"]) == (503, "unavailable")
    assert client.get(f"/runs/exploding/incidents/{id_}")["acknowledged_by"] == []
