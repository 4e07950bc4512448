"""A run in a real Chromium: curves, zoom, live follow, export."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet
from playwright.sync_api import Page, expect
from recorded_runs import RecordedRun, exploding, explosion, healthy
from site_under_test import Site

Serve = Callable[[], Site]


def open_run(site: Site, name: str = "watched", query: str = "", **context: object) -> Page:
    page = site.open("/", **context)
    page.get_by_role("link", name=name, exact=True).click()
    expect(page.locator("h1")).to_have_text(name)
    if query:
        page.goto(page.url + query)
    expect(page.locator(".metric.large canvas")).to_be_visible()
    return page


def drag_across(page: Page, start: float, end: float) -> None:
    """Drag over part of the large chart, given in shares of its width."""
    box = page.locator(".metric.large .u-over").bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + start * box["width"], middle)
    page.mouse.down()
    page.mouse.move(box["x"] + end * box["width"], middle, steps=8)
    page.mouse.up()


def swipe(page: Page, start: tuple[float, float], end: tuple[float, float]) -> None:
    """Move a finger from one place to another."""
    session = page.context.new_cdp_session(page)

    def touch(kind: str, *points: tuple[float, float]) -> None:
        at = [{"x": x, "y": y} for x, y in points]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": at})

    touch("touchStart", start)
    for share in range(1, 9):
        x, y = (a + (b - a) * share / 8 for a, b in zip(start, end, strict=True))
        touch("touchMove", (x, y))
    touch("touchEnd")


def test_it_says_what_is_wrong_and_what_to_do(runs: Path, tmp_path: Path, serve: Serve) -> None:
    RecordedRun(runs, "watched").log(exploding(), checkpoints=tmp_path / "checkpoints")
    page = open_run(serve())
    box = page.get_by_role("region", name="Unresolved incident")
    expect(box).to_contain_text("critical, began at step 152")
    expect(box).to_contain_text("Do first:")
    expect(box).to_contain_text("checkpoint-1")


def test_what_was_wrong_is_still_said_when_the_run_has_ended(runs: Path, serve: Serve) -> None:
    run = RecordedRun(runs, "watched")
    run.log(exploding())
    run.finish()
    page = open_run(serve())
    box = page.get_by_role("region", name="Unresolved incident")
    expect(box).to_contain_text("The learning rate has jumped")
    expect(box).to_contain_text("began at step 152, unresolved when the run ended")
    expect(box).to_contain_text("more unresolved incident")
    expect(page.get_by_text("open incident")).to_have_count(0)
    expect(page.locator(".incidents li").first).to_be_visible()
    expect(page.locator(".incidents")).not_to_contain_text("The run ended")
    page.get_by_role("link", name="Why, and what else moved").click()
    expect(page.locator(".lead")).to_contain_text("The learning rate has jumped")
    expect(page.locator(".incident-head")).to_contain_text("The run ended")


def test_every_metric_is_drawn_also_one_that_klarm_does_not_know(runs: Path, serve: Serve) -> None:
    run = RecordedRun(runs, "watched")
    run.log({**row, "my/own metric": 1.5} for row in healthy(40))
    page = open_run(serve())
    for name in ("reward", "entropy", "loss", "grad_norm", "my/own metric"):
        expect(page.locator(f'figure[data-metric="{name}"] canvas')).to_be_visible()


def test_drag_zooms_double_click_shows_all_again(runs: Path, serve: Serve) -> None:
    RecordedRun(runs, "watched").log(exploding())
    page = open_run(serve())
    with page.expect_response(lambda answer: "/series?" in answer.url and "from=" in answer.url):
        drag_across(page, 0.4, 0.6)
    page.wait_for_url("**from=**")
    page.reload()
    expect(page.get_by_text("Live follow is paused while zoomed")).to_be_visible()
    page.locator(".metric.large .u-over").dblclick()
    page.wait_for_url(lambda address: "from=" not in address)


def test_it_follows_a_live_run_and_pauses_when_zoomed(runs: Path, serve: Serve) -> None:
    run = RecordedRun(runs, "watched")
    run.log(healthy(100))
    page = open_run(serve())
    expect(page.get_by_text("Following live")).to_be_visible()
    run.log(row for row in healthy(110) if int(str(row["step"])) > 100)
    expect(page.locator(".run-title")).to_contain_text("step 110")
    run.log([{"step": 111, "kl": 0.05, "loss": 0.4321}])
    expect(page.locator('figure[data-metric="loss"] .readout')).to_have_text("latest 0.432")
    drag_across(page, 0.2, 0.5)
    expect(page.get_by_text("Live follow is paused while zoomed")).to_be_visible()
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_text("Following live")).to_be_visible()


def test_an_explosion_is_announced_while_the_run_is_open(runs: Path, serve: Serve) -> None:
    run = RecordedRun(runs, "watched")
    run.log(healthy(120))
    page = open_run(serve())
    expect(page.get_by_role("region", name="Unresolved incident")).to_have_count(0)
    run.log(explosion(after=120))
    expect(page.get_by_role("region", name="Unresolved incident")).to_contain_text("critical")
    expect(page).to_have_title("critical: watched – klarm")


def test_axis_scale_and_smoothing_are_in_the_address(runs: Path, serve: Serve) -> None:
    RecordedRun(runs, "watched", seconds_per_step=30, started=1.8e9).log(exploding())
    page = open_run(serve())
    page.keyboard.press("l")
    page.wait_for_url("**log=0**")
    page.keyboard.press("s")
    page.wait_for_url("**smooth=0.9**")
    page.get_by_role("button", name="Time", exact=True).click()
    page.wait_for_url("**axis=time**")
    page.reload()
    expect(page.get_by_role("button", name="Log scale")).to_have_attribute("aria-pressed", "false")
    expect(page.get_by_role("button", name="Time", exact=True)).to_have_attribute(
        "aria-pressed", "true"
    )


def test_the_next_incident_is_a_key_away(runs: Path, serve: Serve) -> None:
    RecordedRun(runs, "watched").log(exploding())
    page = open_run(serve())
    expect(page.locator(".incidents li").first).to_be_visible()
    page.keyboard.press("e")
    page.wait_for_url("**from=**")
    first = page.url
    page.keyboard.press("e")
    page.wait_for_url(lambda address: address != first)


def test_a_nan_and_a_rollback_are_shown(runs: Path, serve: Serve) -> None:
    run = RecordedRun(runs, "watched")
    run.log({**row, "kl": float("nan")} if row["step"] == 20 else row for row in healthy(60))
    run.log(row for row in healthy(80, seed=2) if int(str(row["step"])) > 30)
    page = open_run(serve())
    legend = page.get_by_role("list", name="Legend")
    expect(legend).to_contain_text("rollback")
    expect(legend).to_contain_text("NaN or infinite")


def test_an_incident_that_a_rollback_undid_says_so(runs: Path, serve: Serve) -> None:
    run = RecordedRun(runs, "watched")
    run.log(healthy(120))
    run.log(explosion(after=120))
    run.log(row for row in healthy(60, seed=2) if int(str(row["step"])) > 50)
    page = open_run(serve())
    undone = page.locator(".incidents li", has_text="rolled back").first
    expect(undone).to_contain_text("to 150 (training went back to step 51)")
    expect(undone.get_by_role("button", name="Show in chart")).to_have_count(0)
    undone.get_by_role("link").click()
    expect(page.locator(".incident-head")).to_contain_text("training went back to step 51")


def test_a_run_that_is_deleted_leads_back_to_the_others(runs: Path, serve: Serve) -> None:
    run = RecordedRun(runs, "watched")
    run.log(exploding())
    run.finish()
    RecordedRun(runs, "other").log(healthy(20))
    site = serve()
    site.expected_complaint = "404"
    page = open_run(site)
    another = site.open("/")
    another.locator(".run-row .trouble").click()
    expect(another.locator(".lead")).to_be_visible()
    shutil.rmtree(run.folder)
    for looked_at in (page, another):
        expect(looked_at.get_by_role("alert")).to_contain_text("There is no run watched")
        expect(looked_at.locator("h1")).to_have_count(0)
        looked_at.get_by_role("alert").get_by_role("link", name="All runs").click()
        expect(looked_at.locator(".run-row")).to_have_count(1)


def test_a_finger_zooms_and_still_scrolls(runs: Path, serve: Serve) -> None:
    RecordedRun(runs, "watched").log(exploding())
    page = open_run(serve(), has_touch=True, viewport={"width": 400, "height": 800})
    chart = page.locator(".metric.large .u-over")
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    assert box is not None
    swipe(page, (box["x"] + 80, box["y"] + 150), (box["x"] + 84, box["y"] + 20))
    assert "from=" not in page.url
    box = chart.bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    swipe(page, (box["x"] + 0.4 * box["width"], middle), (box["x"] + 0.8 * box["width"], middle))
    page.wait_for_url("**from=**")
    expect(page.get_by_text("Live follow is paused while zoomed")).to_be_visible()


def test_the_latest_value_is_live_on_the_time_axis(runs: Path, serve: Serve) -> None:
    run = RecordedRun(runs, "watched", seconds_per_step=30, started=1.8e9)
    run.log(healthy(100))
    page = open_run(serve(), query="?axis=time")
    run.log([{"step": 101, "kl": 0.05, "loss": 0.4321}])
    expect(page.locator('figure[data-metric="loss"] .readout')).to_have_text("latest 0.432")


def test_it_can_be_exported(runs: Path, serve: Serve) -> None:
    RecordedRun(runs, "watched").log(healthy(30))
    page = open_run(serve())
    page.locator("summary", has_text="Export").click()
    with page.expect_download() as csv:
        page.get_by_role("link", name="CSV").click()
    lines = csv.value.path().read_text().splitlines()
    assert lines[0].startswith("step,time,")
    assert len(lines) == 31
    with page.expect_download() as picture:
        page.get_by_role("button", name="PNG").click()
    assert picture.value.path().read_bytes().startswith(b"\x89PNG")
    with page.expect_download() as parquet:
        page.get_by_role("button", name="Parquet").click()
    table = pyarrow.parquet.read_table(parquet.value.path())
    assert table.column_names[:3] == ["step", "time", "kl"]
    assert table.num_rows == 30


def test_the_settings_used_are_listed(runs: Path, serve: Serve) -> None:
    run = RecordedRun(runs, "watched", kl_explosion={"sigma_multiplier": 5.0})
    run.log(healthy(30))
    page = open_run(serve())
    settings = page.get_by_role("region", name="Settings used")
    expect(settings).to_contain_text("kl_explosion.sigma_multiplier")
    settings.get_by_role("button", name="Show all settings").click()
    expect(settings).to_contain_text("kl_runaway.patience")
