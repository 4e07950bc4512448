"""The overview in a real Chromium: which run is in trouble, at a glance."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import expect
from recorded_runs import RecordedRun, exploding, explosion, healthy
from site_under_test import Site

Serve = Callable[[], Site]


def test_the_worst_run_is_first_and_says_why(runs: Path, serve: Serve) -> None:
    RecordedRun(runs, "fine").log(healthy(60))
    RecordedRun(runs, "burning").log(exploding())
    page = serve().open()
    rows = page.locator(".run-row")
    expect(rows).to_have_count(2)
    expect(rows.nth(0)).to_contain_text("burning")
    expect(rows.nth(0)).to_contain_text("critical")
    expect(rows.nth(0)).to_contain_text("began at step")
    expect(rows.nth(1)).to_contain_text("No incident")
    expect(page.locator("h1")).to_have_text("1 of 2 runs needs attention")


def test_a_run_that_explodes_turns_red_without_a_reload(runs: Path, serve: Serve) -> None:
    run = RecordedRun(runs, "watched")
    run.log(healthy(120))
    page = serve().open()
    row = page.locator(".run-row")
    expect(row).to_have_class("run-row tone-ok")
    page.evaluate("window.stillTheSamePage = true")
    run.log(explosion(after=120))
    expect(row).to_have_class("run-row tone-critical")
    expect(row).to_contain_text("KL critical, began at step")
    assert page.evaluate("window.stillTheSamePage")


def test_a_new_run_appears_by_itself(runs: Path, serve: Serve) -> None:
    page = serve().open()
    expect(page.get_by_text("There is no run below")).to_be_visible()
    RecordedRun(runs, "newcomer").log(healthy(30))
    expect(page.locator(".run-row")).to_contain_text("newcomer")


def test_the_page_never_says_that_there_is_no_run_while_it_loads(runs: Path, serve: Serve) -> None:
    RecordedRun(runs, "fine").log(healthy(20))
    page = serve().open()
    row = page.locator(".run-row")
    expect(row).to_contain_text("fine")
    page.add_init_script(
        """window.shown = [];
        const note = () => window.shown.push(document.body?.innerText ?? "");
        new MutationObserver(note).observe(document, { childList: true, subtree: true });"""
    )
    page.reload()
    expect(row).to_contain_text("fine")
    shown = page.evaluate("window.shown")
    assert any("Loading" in text for text in shown)
    assert not any("There is no run" in text for text in shown)


def test_the_filter_and_the_order_are_in_the_address(runs: Path, serve: Serve) -> None:
    for name in ("apple", "banana", "cherry"):
        RecordedRun(runs, name).log(healthy(20))
    page = serve().open()
    expect(page.locator(".run-row")).to_have_count(3)
    page.keyboard.press("/")
    page.keyboard.type("an")
    expect(page.locator(".run-row")).to_have_count(1)
    page.get_by_role("button", name="Run", exact=True).click()
    page.reload()
    expect(page.get_by_label("Filter the runs")).to_have_value("an")
    expect(page.locator(".run-row")).to_contain_text("banana")
    assert "sort=name" in page.url


def test_the_heading_counts_the_runs_that_are_listed(runs: Path, serve: Serve) -> None:
    RecordedRun(runs, "fine").log(healthy(60))
    RecordedRun(runs, "burning").log(exploding())
    page = serve().open("/?q=fine")
    expect(page.locator("h1")).to_have_text("No run needs attention")
    expect(page.locator(".headline")).to_contain_text("1 of 2 runs listed")
    page.get_by_label("Filter the runs").fill("")
    expect(page.locator("h1")).to_have_text("1 of 2 runs needs attention")


def test_name_and_message_are_whole_on_a_usual_screen(runs: Path, serve: Serve) -> None:
    RecordedRun(runs, "grpo-7b-math-learning-rate-2e-5").log(exploding())
    page = serve().open(viewport={"width": 1440, "height": 900})
    for place in (".trouble-message", ".run-name"):
        text = page.locator(place)
        expect(text).to_be_visible()
        assert text.evaluate("it => it.scrollHeight <= it.clientHeight + 1")
        assert text.evaluate("it => it.scrollWidth <= it.clientWidth + 1")


def test_a_run_of_which_nothing_can_be_read_is_not_green(runs: Path, serve: Serve) -> None:
    for name, content in (("empty", b""), ("garbage", b"nonsense\n")):
        (runs / name).mkdir()
        (runs / name / "journal.jsonl").write_bytes(content)
    RecordedRun(runs, "fine").log(healthy(20))
    page = serve().open()
    expect(page.locator('[data-run="garbage"]')).to_contain_text("unreadable")
    expect(page.locator('[data-run="garbage"]')).to_have_class("run-row tone-neutral")
    expect(page.locator('[data-run="empty"]')).to_contain_text("no data yet")
    expect(page.locator(".headline")).to_contain_text("1 unreadable")
    page.get_by_role("link", name="garbage").click()
    expect(page.get_by_text("Nothing in the journal of this run can be read")).to_be_visible()
    page.goto(page.url.split("/runs/")[0] + "/compare?runs=fine,garbage,empty")
    expect(page.locator(".metric.large canvas")).to_be_visible()


def test_a_run_in_which_nothing_is_watched_is_not_green(runs: Path, serve: Serve) -> None:
    RecordedRun(runs, "fine").log(healthy(20))
    odd = RecordedRun(runs, "odd")
    odd.log({"step": step, "H": 1.0, "KL_div": 0.1} for step in range(20))
    odd.finish()
    page = serve().open()
    row = page.locator(".run-row").nth(0)
    expect(row).to_contain_text("odd")
    expect(row).to_have_class("run-row tone-neutral")
    expect(row).to_contain_text("not watched")
    sentence = "Nothing was watched: no detector knows any of H, KL_div."
    expect(row).to_contain_text(sentence)
    expect(row).not_to_contain_text("No incident")
    expect(page.locator("h1")).to_have_text("1 of 2 runs needs attention")
    expect(page.locator(".headline")).to_contain_text("1 not watched, 1 ok")
    page.get_by_role("link", name="odd").click()
    expect(page.locator(".run-title")).to_contain_text("not watched")
    expect(page.get_by_text(sentence)).to_be_visible()
    expect(page.get_by_text("No incident")).to_have_count(0)
    expect(page.get_by_text("Nothing has opened an incident")).to_have_count(0)


def test_a_run_without_a_step_does_not_look_healthy(runs: Path, serve: Serve) -> None:
    RecordedRun(runs, "new").log([])
    page = serve().open()
    expect(page.locator(".run-row")).to_contain_text("No step is recorded yet")
    expect(page.locator(".headline")).to_contain_text("1 without data")
    page.get_by_role("link", name="new").click()
    expect(page.get_by_role("heading", name="No steps yet")).to_be_visible()
    expect(page.get_by_text("No incident")).to_have_count(0)


def test_the_keyboard_leads_to_a_run(runs: Path, serve: Serve) -> None:
    for name in ("apple", "banana"):
        RecordedRun(runs, name).log(healthy(20))
    page = serve().open("/?sort=name")
    expect(page.locator(".run-row")).to_have_count(2)
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("banana")
    page.keyboard.press("?")
    keys = page.get_by_role("dialog", name="Keyboard")
    expect(keys).to_be_visible()
    expect(keys).to_contain_text("Zoom to the next incident")


def test_of_many_runs_only_those_in_view_are_drawn(runs: Path, serve: Serve) -> None:
    for number in range(150):
        run = RecordedRun(runs, f"run-{number:03}")
        run.log(healthy(3))
        run.finish()
    page = serve().open("/?sort=name")
    expect(page.get_by_role("table")).to_have_attribute("aria-rowcount", "151")
    expect(page.get_by_role("link", name="run-000")).to_be_visible()
    assert page.locator(".run-row").count() < 60
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    expect(page.get_by_role("link", name="run-149")).to_be_visible()
