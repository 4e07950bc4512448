"""An incident in a real Chromium: why, what to do, and what people do about it."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from recorded_runs import RecordedRun, exploding, explosion, healthy
from site_under_test import Site

Serve = Callable[[], Site]


@pytest.fixture
def incident(runs: Path, tmp_path: Path, serve: Serve) -> tuple[Page, RecordedRun]:
    """Open the worst incident of a run that is training, from the overview."""
    run = RecordedRun(runs, "burning")
    run.log(healthy(120), checkpoints=tmp_path / "checkpoints")
    run.log(explosion(after=120))
    page = serve().open()
    page.locator(".run-row .trouble").click()
    expect(page.locator("h1")).to_contain_text("KL critical, began at step")
    return page, run


def test_it_shows_what_happened_why_and_what_to_do(incident: tuple[Page, RecordedRun]) -> None:
    page, _ = incident
    expect(page.get_by_role("region", name="What to do first")).to_contain_text("checkpoint-120")
    expect(page.get_by_role("region", name="The arithmetic")).to_be_visible()
    timeline = page.get_by_role("region", name="Timeline")
    expect(timeline).to_contain_text("Pending")
    expect(timeline).to_contain_text("Opened")
    moved = page.get_by_role("region", name="What moved")
    expect(moved.locator('figure[data-metric="kl"] canvas')).to_be_visible()
    assert moved.locator("canvas").count() >= 2
    expect(page.get_by_role("region", name="Notifications")).to_be_visible()


@pytest.mark.parametrize("confirmed", [True, False])
def test_since_when_has_one_answer(runs: Path, serve: Serve, confirmed: bool) -> None:
    only = {"kl_runaway": {"enabled": False}, "kl_budget": {"enabled": False}}
    run = RecordedRun(runs, "burning", **only, kl_explosion={"confirm_steps": 3})
    *rows, last = healthy(121)
    run.log(rows)
    run.log(explosion(after=120) if confirmed else [{**last, "kl": math.nan}])
    (known,) = [one for one in run.monitor.incidents if one.signal == "kl"]
    page = serve().open()
    expect(page.locator(".run-row .trouble")).to_contain_text(f"began at step {known.started}")
    page.locator(".run-row .trouble").click()
    head = page.locator(".incident-head")
    expect(head.locator("h1")).to_contain_text(f"began at step {known.started}")
    expect(head.locator(".since")).to_contain_text(f"First alert at step {known.started},")
    reported = f"at step {known.opened}" if confirmed else "at once"
    expect(head.locator(".since")).to_contain_text(f"; reported {reported}.")


def test_a_learning_rate_that_jumped_is_named(runs: Path, serve: Serve) -> None:
    run = RecordedRun(runs, "jumped")
    rows = healthy(200)
    run.log({**row, "learning_rate": 1e-5 if int(str(row["step"])) < 150 else 1e-3} for row in rows)
    page = serve().open()
    page.locator(".run-row .trouble", has_text="Learning rate").click()
    expect(page.locator("h1")).to_contain_text("Learning rate")
    page.get_by_role("link", name="jumped").click()
    expect(page.locator(".incidents")).to_contain_text("1. Learning rate")


def test_a_z_score_is_explained_with_its_numbers(runs: Path, serve: Serve) -> None:
    only = {"kl_runaway": {"enabled": False}, "kl_budget": {"enabled": False}}
    run = RecordedRun(runs, "burning", kl_explosion={"confirm_steps": 3}, **only)
    run.log(healthy(120))
    run.log(explosion(after=120))
    page = serve().open()
    page.locator(".run-row .trouble").click()
    arithmetic = page.get_by_role("region", name="The arithmetic")
    for name in ("Baseline mean", "Standard deviation", "Warning above", "Critical above"):
        expect(arithmetic).to_contain_text(name)


def test_somebody_acknowledges_it(incident: tuple[Page, RecordedRun]) -> None:
    page, run = incident
    acknowledge = page.get_by_role("button", name="Acknowledge", exact=True)
    acknowledge.click()
    expect(page.locator(".incident-head")).to_contain_text("acknowledged by")
    expect(acknowledge).to_have_count(0)
    assert "ack" in (run.folder / "commands.jsonl").read_text()


def test_somebody_takes_the_acknowledgement_back(incident: tuple[Page, RecordedRun]) -> None:
    page, run = incident
    page.get_by_role("button", name="Acknowledge", exact=True).click()
    page.get_by_role("button", name="Take acknowledgement back").click()
    expect(page.locator(".toast").last).to_contain_text("no longer acknowledged")
    expect(page.get_by_role("button", name="Acknowledge", exact=True)).to_be_visible()
    expect(page.locator(".incident-head")).not_to_contain_text("acknowledged by")
    expect(page.get_by_role("region", name="Timeline")).to_contain_text("took the acknowledgement")
    assert '"command":"ack_off"' in (run.folder / "commands.jsonl").read_text()


def test_somebody_silences_its_signal_and_ends_the_silence(
    incident: tuple[Page, RecordedRun],
) -> None:
    page, run = incident
    page.get_by_role("button", name="Silence …").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("For how long").select_option("2h")
    dialog.get_by_label("Your name (optional)").fill("ada")
    dialog.get_by_role("button", name="Silence").click()
    expect(page.locator(".incident-head")).to_contain_text("kl is silenced")
    assert '"by":"ada"' in (run.folder / "commands.jsonl").read_text()
    page.get_by_role("button", name="End silence").click()
    expect(page.get_by_role("button", name="Silence …")).to_be_visible()


def test_a_run_that_trains_closes_it_with_its_next_step(
    incident: tuple[Page, RecordedRun],
) -> None:
    page, _ = incident
    page.get_by_role("button", name="Close …").click()
    page.get_by_role("dialog").get_by_role("button", name="Close", exact=True).last.click()
    expect(page.locator(".toast")).to_contain_text("next step")
    expect(page.locator(".incident-head")).to_contain_text("waiting for the next step")


def test_an_incident_of_a_run_that_has_ended_is_accepted_at_once(runs: Path, serve: Serve) -> None:
    run = RecordedRun(runs, "burning")
    run.log(exploding())
    run.finish()
    page = serve().open()
    page.locator(".run-row .trouble").click()
    page.get_by_role("button", name="Accept as normal …").click()
    page.get_by_role("dialog").get_by_role("button", name="Accept", exact=True).click()
    expect(page.locator(".incident-head")).to_contain_text("accepted")


def test_a_false_alarm_is_marked_with_a_note(incident: tuple[Page, RecordedRun]) -> None:
    page, run = incident
    page.get_by_role("button", name="False alarm …").click()
    page.get_by_label("What it really was (optional)").fill("the reward was rescaled")
    page.get_by_role("button", name="Mark", exact=True).click()
    expect(page.locator(".incident-head")).to_contain_text("the reward was rescaled")
    assert "rescaled" in (run.folder / "false_alarms.jsonl").read_text()


def test_the_path_of_the_last_good_checkpoint_is_copied(
    incident: tuple[Page, RecordedRun],
) -> None:
    page, _ = incident
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy path").click()
    expect(page.locator(".toast")).to_have_text("Copied.")
    assert page.evaluate("navigator.clipboard.readText()").endswith("checkpoint-120")
