"""Comparing runs and trying other settings in a real Chromium."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import expect
from recorded_runs import RecordedRun, exploding, healthy
from site_under_test import Site

from klarm.journal import FileJournal, Started

Serve = Callable[[], Site]


def test_runs_are_selected_and_overlaid(runs: Path, serve: Serve) -> None:
    RecordedRun(runs, "burning", kl_explosion={"sigma_multiplier": 5.0}).log(exploding())
    RecordedRun(runs, "fine").log(healthy(200))
    page = serve().open()
    page.get_by_label("Select burning for a comparison").check()
    page.get_by_label("Select fine for a comparison").check()
    page.get_by_role("button", name="Compare 2 runs").click()
    expect(page.locator("h1")).to_have_text("Compare 2 runs")
    expect(page.locator(".metric.large canvas")).to_be_visible()
    expect(page.locator('figure[data-metric="reward"] canvas')).to_be_visible()
    differences = page.get_by_role("region", name="Different settings", exact=True)
    expect(differences).to_contain_text("kl_explosion.sigma_multiplier")
    page.get_by_role("button", name="First incident").click()
    page.wait_for_url("**align=incident**")
    expect(page.locator(".run-keys")).to_contain_text("has no incident to align by")
    page.get_by_role("button", name="Time since start").click()
    page.reload()
    expect(page.get_by_role("button", name="Time since start")).to_have_attribute(
        "aria-pressed", "true"
    )


def test_a_slider_shows_the_alerts_there_would_have_been(runs: Path, serve: Serve) -> None:
    run = RecordedRun(runs, "burning")
    run.log(exploding())
    run.finish()
    page = serve().open("/")
    page.get_by_role("link", name="burning", exact=True).click()
    page.get_by_role("link", name="What if …").click()
    outcome = page.locator(".outcome")
    expect(outcome).to_contain_text("With these settings")
    before = outcome.inner_text()
    page.get_by_label("sigma multiplier", exact=True).fill("14")
    expect(page.get_by_role("region", name="klarm.yaml")).to_contain_text("sigma_multiplier: 14")
    expect(outcome).not_to_have_text(before)
    assert "sigma_multiplier" in page.url
    page.get_by_role("button", name="frozen").click()
    expect(page.get_by_role("region", name="klarm.yaml")).to_contain_text("baseline_mode: frozen")
    page.reload()
    expect(page.get_by_role("region", name="klarm.yaml")).to_contain_text("sigma_multiplier: 14")


def test_what_was_tried_is_drawn_as_what_was_recorded(runs: Path, serve: Serve) -> None:
    run = RecordedRun(runs, "burning")
    run.log(exploding())
    run.finish()
    page = serve().open("/")
    page.get_by_role("link", name="burning", exact=True).click()
    page.get_by_role("link", name="What if …").click()
    charts = page.locator("figure.metric .u-over")
    expect(charts).to_have_count(2)
    heights = {charts.nth(at).bounding_box()["height"] for at in (0, 1)}  # type: ignore[index]
    assert len(heights) == 1
    # Only those of the detector that is tried are drawn.
    expect(page.get_by_text("alerts of kl_explosion")).to_be_visible()
    page.get_by_label("Detector").select_option("kl_budget")
    expect(page.get_by_text("alerts of kl_budget")).to_be_visible()


def test_of_a_long_run_a_part_is_tried_and_all_of_it_on_demand(runs: Path, serve: Serve) -> None:
    journal = FileJournal(runs / "long", print)
    journal.record(Started("long", 1.8e9, "", "", {}))
    for step in range(1, 12_001):
        journal.step(step, 1.8e9 + step, {"kl": 0.02 + 0.001 * (step % 3)})
    journal.close(10.0)
    page = serve().open("/runs/long/what-if")
    note = page.get_by_role("note")
    expect(note).to_contain_text("of 12\u202f000 rows, from step")
    note.get_by_role("button", name="Try all").click()
    page.wait_for_url("**all=1**")
    expect(note).to_have_count(0)


def test_another_detector_can_be_tried(runs: Path, serve: Serve) -> None:
    run = RecordedRun(runs, "burning")
    run.log(exploding())
    run.finish()
    page = serve().open("/")
    page.get_by_role("link", name="burning", exact=True).click()
    page.get_by_role("link", name="What if …").click()
    page.get_by_label("Detector").select_option("kl_runaway")
    page.get_by_label("enabled").uncheck()
    expect(page.get_by_role("region", name="klarm.yaml")).to_contain_text("kl_runaway:")
