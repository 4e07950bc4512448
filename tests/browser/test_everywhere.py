"""What holds for every view: dark mode, phones, accessibility, hostile names, bad addresses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from recorded_runs import RecordedRun, exploding, healthy
from site_under_test import Site

Serve = Callable[[], Site]
PHONE = {"width": 390, "height": 844}
VIEWS = ("overview", "run", "incident", "compare", "what-if")
HOSTILE = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>'


@pytest.fixture
def site(runs: Path, tmp_path: Path, serve: Serve) -> Site:
    burning = RecordedRun(runs, "burning", kl_explosion={"sigma_multiplier": 4.0})
    burning.log(exploding(), checkpoints=tmp_path / "checkpoints")
    RecordedRun(runs, "fine").log(healthy(150))
    return serve()


def address_of(site: Site, view: str) -> str:
    """Return where a view of the burning run is."""
    page = site.open()
    runs = page.evaluate("fetch('/api/v1/runs').then((answer) => answer.json())")["runs"]
    page.context.close()
    ids = [run["id"] for run in runs]
    worst = runs[0]
    return {
        "overview": "/",
        "run": f"/runs/{worst['id']}",
        "incident": f"/runs/{worst['id']}/incidents/{worst['worst']['id']}",
        "compare": f"/compare?runs={','.join(ids)}",
        "what-if": f"/runs/{worst['id']}/what-if",
    }[view]


def settled(page: Page, view: str) -> None:
    """Wait until a view shows what it has to show."""
    expect(page.locator("h1")).to_be_visible()
    expect(page.locator(".spark" if view == "overview" else "canvas").first).to_be_visible()


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_violation(site: Site, axe: str, view: str, scheme: str) -> None:
    page = site.open(address_of(site, view), color_scheme=scheme)
    settled(page, view)
    page.evaluate(axe)
    found: dict[str, Any] = page.evaluate("axe.run()")
    serious = [
        (violation["id"], [node["html"] for node in violation["nodes"]][:3])
        for violation in found["violations"]
        if violation["impact"] in ("serious", "critical")
    ]
    assert serious == [], json.dumps(serious, indent=2)


@pytest.mark.parametrize("view", VIEWS)
def test_a_phone_shows_it_without_scrolling_sideways(site: Site, view: str) -> None:
    page = site.open(address_of(site, view), viewport=PHONE, has_touch=True, is_mobile=True)
    settled(page, view)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def test_dark_mode_follows_the_system_at_once(site: Site) -> None:
    page = site.open(address_of(site, "run"), color_scheme="light")
    settled(page, "run")
    background = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(background)
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(f"{background} !== '{light}'")
    expect(page.locator(".metric.large canvas")).to_be_visible()


def test_names_and_messages_of_a_run_stay_text(runs: Path, serve: Serve) -> None:
    run = RecordedRun(runs, "evil", host=HOSTILE, framework=HOSTILE, run=HOSTILE)
    run.log({**row, HOSTILE: 1.0, f"{HOSTILE},comma": 2.0} for row in exploding())
    run.log([{"step": 400, "kl": float("nan")}])
    with (run.folder / "journal.jsonl").open("a") as journal:
        journal.write(json.dumps({"type": HOSTILE}) + "\n")
    site = serve()
    for view in ("overview", "run", "incident", "what-if"):
        page = site.open(address_of(site, view))
        settled(page, view)
        if view == "run":
            expect(page.locator("figcaption", has_text=HOSTILE).first).to_be_visible()
        assert page.evaluate("window.hacked") is None
        assert page.locator("img").count() == 0
        assert page.locator("script").count() == 1


def test_kinds_that_the_page_does_not_know_are_shown_as_they_are(site: Site) -> None:
    page = site.open()
    expect(page.locator(".run-row")).to_have_count(2)

    def change(route: Any) -> None:
        answer = route.fetch()
        body = answer.json()
        body["runs"][0]["health"] = "melting"
        body["runs"][0]["activity"] = "on vacation"
        route.fulfill(response=answer, json=body)

    page.route("**/api/v1/runs", change)
    page.reload()
    expect(page.locator(".run-row", has_text="melting")).to_contain_text("on vacation")


def test_an_address_that_leads_nowhere_says_so(site: Site) -> None:
    site.expected_complaint = "404"
    page = site.open("/nowhere")
    expect(page.get_by_text("There is nothing at this address.")).to_be_visible()
    page = site.open("/runs/no-such-run")
    expect(page.get_by_role("alert")).to_be_visible()


def test_a_lost_connection_is_said_and_found_again(site: Site) -> None:
    page = site.open()
    expect(page.locator(".connection")).to_have_text("Live")
    site.expected_complaint = "ERR_"
    site.server.stop()
    expect(page.locator(".connection")).to_have_text("Connection lost, retrying")
    site.server.start()
    expect(page.locator(".connection")).to_have_text("Live")
