"""The message: what people read, word for word."""

from __future__ import annotations

import json
import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from example_events import DIAGNOSED, WATCHED_RUN
from klarm.channels.discord import discord_payload
from klarm.channels.message import Context, Message, message_of
from klarm.channels.slack import slack_payload
from klarm.channels.sparkline import sparkline
from klarm.channels.text import one_line
from klarm.wording import advice

OPENED = DIAGNOSED
PLAIN = msgspec.structs.replace(OPENED, also=(), pattern="", cause="", remedy="", checkpoint="")
CONTEXT = msgspec.structs.replace(
    WATCHED_RUN, values=[(150, 0.01), (151, 0.02), (152, 0.04), (153, 0.08)], opening=OPENED
)


def test_an_opened_incident_is_described_in_full() -> None:
    """What, where, since when, how bad, what else moved, what to do, where to go back to."""
    message = message_of(OPENED, CONTEXT)
    assert (
        message.title
        == "grpo-7b: kl critical, began at step 148 (opened at step 153), pattern: gradients first"
    )
    assert message.body == (
        "KL 0.07796 is 9.24σ above its rolling baseline of 0.01306 ± 0.007.\n"
        "kl ▁▂▄█  0.01 → 0.08, steps 150 to 153\n"
        "Since: step 148, 2025-11-15 09:48 UTC (12 min ago)\n"
        "Why it opened: In alert for 5 consecutive rows.\n"
        "Likely cause: updates that are too large\n"
        "To do: Lower the learning rate or the gradient clip.\n"
        "Last good checkpoint: /data/ckpt/step-140\n"
        "Peak: kl 0.07796\n"
        "Also moved: grad_norm ×4 since step 147, then entropy ×0.5 since step 149; "
        "no clear change: reward\n"
        "Cost: $4.00 since it began, $560 for the run so far\n"
        "https://example.org/runs/7b"
    )
    assert message.key == "k3f7q2ab"
    assert (message.metric, message.started, message.time) == ("kl", 148, CONTEXT.now)
    assert (message.id, message.reason) == ("k3f7q2ab", "confirmed")
    assert message.why == "In alert for 5 consecutive rows."


def test_an_escalation_repeats_the_cause_but_has_advice_of_its_own() -> None:
    """The opening may have been of a warning; the terminal gives the same advice."""
    escalated = msgspec.structs.replace(PLAIN, event="escalated", reason="severity_raised")
    message = message_of(escalated, CONTEXT)
    assert message.title == "grpo-7b: kl critical, began at step 148 (escalated at step 153)"
    assert message.fields["Likely cause"] == "updates that are too large"
    assert [message.fields["To do"]] == [escalated.recommendation] == advice(escalated)


def test_a_resolution_says_how_long_it_was_and_asks_for_nothing() -> None:
    """Who reads it has nothing to do."""
    over = msgspec.structs.replace(
        PLAIN, event="resolved", step=360, reason="recovered", level=0.021, before=0.02
    )
    message = message_of(over, CONTEXT)
    assert message.title == "grpo-7b: kl resolved (recovered), critical, steps 148 to 360"
    assert message.summary == "Recovered: KL is back at 0.021 (0.02 before the rise)."
    assert message.mood == "good"
    assert message.fields == {
        "Lasted": "steps 148 to 360, 12 min",
        "Likely cause": "updates that are too large",
        "Peak": "kl 0.07796",
        "Cost": "$4.00 since it began, $560 for the run so far",
    }


def test_what_a_rollback_undid_is_no_recovery_and_had_no_length() -> None:
    """Also in one message with the opening."""
    undone = msgspec.structs.replace(PLAIN, event="resolved", step=140, reason="rolled_back")
    message = message_of(undone, CONTEXT)
    assert message.title == "grpo-7b: kl rolled back, training went back to step 140"
    assert "Lasted" not in message.fields


def test_a_message_that_is_late_says_so() -> None:
    """It may come from the next start of the run, or from cron."""
    late = msgspec.structs.replace(CONTEXT, sent=CONTEXT.now + 7500)
    assert message_of(OPENED, late).fields["Sent late"] == "2 h 5 min after it happened"
    prompt = msgspec.structs.replace(CONTEXT, sent=CONTEXT.now + 2)
    assert "Sent late" not in message_of(OPENED, prompt).fields


def test_what_is_not_known_is_left_out() -> None:
    """A message never shows an empty field; without a pattern the detector advises."""
    message = message_of(PLAIN, Context(run="r", now=1.0))
    assert message.fields == {
        "Since": "step 148",
        "Why it opened": "In alert for 5 consecutive rows.",
        "Peak": "kl 0.07796",
        "To do": "Act now: lower the learning rate or raise the KL penalty.",
    }
    assert (message.sparkline, message.curve, message.drawn, message.link) == ("", [], "", "")


def test_a_late_first_alert_is_named_with_the_onset() -> None:
    """The metric left its normal range long before."""
    message = message_of(msgspec.structs.replace(PLAIN, onset=130), CONTEXT)
    assert message.fields["Since"] == (
        "step 148 (first row in alert, 2025-11-15 09:48 UTC, 12 min ago); in hindsight, kl "
        "left its normal range at step 130"
    )


def test_a_message_says_that_earlier_alerts_were_ignored() -> None:
    """As the terminal does: the step is not that of the first alert."""
    message = message_of(msgspec.structs.replace(PLAIN, onset=70, ignored_since=90), CONTEXT)
    assert message.fields["Since"] == (
        "step 148, 2025-11-15 09:48 UTC (12 min ago); alerts from step 90 on were ignored"
    )


def test_a_clock_that_was_set_back_costs_nothing() -> None:
    """Rather than a negative amount."""
    early = msgspec.structs.replace(CONTEXT, now=CONTEXT.run_started - 1e6)
    assert message_of(OPENED, early).fields["Cost"] == (
        "$0.00 since it began, $0.00 for the run so far"
    )


@pytest.mark.parametrize("peak", ["NaN", math.nan, math.inf])
def test_a_peak_that_is_not_finite_is_shown(peak: float | str) -> None:
    """A journal spells it as text."""
    shown_peak = message_of(msgspec.structs.replace(OPENED, peak=peak), CONTEXT).fields["Peak"]
    assert shown_peak.lower() in ("kl nan", "kl infinity")


@given(st.text(), st.text(), st.text())
def test_names_of_others_stay_on_their_line(run: str, path: str, said: str) -> None:
    """Whatever a run, a path or a metric is called: no line breaks, no control characters."""
    context = msgspec.structs.replace(CONTEXT, run=run, url=path)
    message = message_of(msgspec.structs.replace(OPENED, message=said, checkpoint=path), context)
    assert message.title.isprintable()
    assert all(line.isprintable() for line in message.body.split("\n"))
    assert len(message.body.split("\n")) <= 12
    assert all(value.isprintable() and value for value in message.fields.values())


def test_a_long_line_is_cut() -> None:
    """At its end, where it shows."""
    assert one_line("x" * 2000, 10) == "xxxxxxxxx…"


numbers = st.floats(allow_nan=True, allow_infinity=True)


@given(st.lists(numbers, max_size=300), st.integers(1, 60))
def test_any_series_can_be_drawn(values: list[float], width: int) -> None:
    """In as many characters as there is room, a cross for what is not finite."""
    line = sparkline(values, width)
    assert len(line) == min(len(values), width)
    assert set(line) <= set("▁▂▃▄▅▆▇█×")
    assert ("×" in line) == any(not math.isfinite(value) for value in values)


def test_a_single_spike_is_never_lost() -> None:
    """However many values share a character."""
    assert sparkline([0.0] * 500 + [9.0] + [0.0] * 499, 10).count("█") == 1
    assert sparkline([9.0] * 500 + [0.0] + [9.0] * 499, 10).count("▁") == 1


def test_the_line_that_is_drawn_says_what_it_spans(message: Message) -> None:
    """Without a scale nobody knows how far it went: in Slack and Discord too."""
    assert "→" in message.drawn
    assert message.drawn in message.body
    assert message.drawn in json.dumps(slack_payload(message), ensure_ascii=False)
    assert message.drawn in json.dumps(discord_payload(message), ensure_ascii=False)
