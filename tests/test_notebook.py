"""What a notebook shows of a monitor and of an incident."""

from __future__ import annotations

import math

import klarm

HOSTILE = "<script>alert(1)</script>\x1b[2J"


def test_a_monitor_shows_its_run_and_incidents() -> None:
    """Steps, state, and one row per incident."""
    monitor = klarm.init("a", console=False)
    for _ in range(3):
        klarm.log({"kl": 0.1})
    shown = monitor._repr_html_()
    assert shown.startswith("<table><caption><b>klarm run a</b></caption>")
    assert "<td>3 in this process</td>" in shown
    assert "<td>recorded</td>" in shown
    klarm.log({"kl": math.nan})
    assert "<th>incident 1</th><td>kl critical, steps 3 to now: " in monitor._repr_html_()
    klarm.finish()
    assert "<td>finished</td>" in monitor._repr_html_()


def test_incidents_are_shown_in_the_order_of_their_numbers() -> None:
    """Also when a later one is resolved before an earlier one."""
    monitor = klarm.init("a", console=False)
    klarm.log({"kl": math.nan, "loss": 0.5})
    klarm.log({"loss": math.nan})
    for _ in range(30):
        klarm.log({"loss": 0.5})
    assert [incident.number for incident in monitor.incidents] == [2, 1]
    shown = monitor._repr_html_()
    assert 0 < shown.index("<th>incident 1</th>") < shown.index("<th>incident 2</th>")


def test_an_incident_shows_what_to_do() -> None:
    """In a table."""
    monitor = klarm.init("a", console=False)
    klarm.log({"kl": math.nan})
    (incident,) = monitor.incidents
    shown = incident._repr_html_()
    assert "klarm incident 1 on kl" in shown
    assert "<th>severity</th><td>critical</td>" in shown
    assert "<th>peak</th><td>kl NaN</td>" in shown
    assert "<th>to do</th>" in shown


def test_text_from_elsewhere_is_escaped() -> None:
    """Names and messages are shown, and neither run nor command anything."""
    monitor = klarm.init("a", console=False)
    klarm.log({"kl": math.nan})
    monitor.run = HOSTILE
    (incident,) = monitor.incidents
    incident.subject = HOSTILE
    for shown in (monitor._repr_html_(), incident._repr_html_()):
        assert "<script>" not in shown
        assert "&lt;script&gt;" in shown
        assert "\x1b" not in shown


def test_a_disabled_monitor_says_so() -> None:
    """And no numbers that it does not have."""
    shown = klarm.init("a", console=False, disabled=True)._repr_html_()
    assert "nothing is watched" in shown
    assert "steps" not in shown


def test_a_lost_metric_has_no_peak() -> None:
    """Its incident only counts steps."""
    monitor = klarm.init("a", console=False)
    for step in range(150):
        klarm.log({"kl": 0.02 + 0.001 * (step % 7), "entropy": 1.0 + min(step, 60) * 0.01}, step)
    (incident,) = monitor.incidents
    assert "on stuck entropy" in incident._repr_html_()
    assert "peak" not in incident._repr_html_()
