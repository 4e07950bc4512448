"""Every text about an incident, pinned here and nowhere else.

Covers reasons.py too.
"""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import get_args

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from cases import over
from klarm.channels.message import ENDINGS
from klarm.detectors import CATALOGUE, KLBudgetDetector
from klarm.incidents import metric_of
from klarm.incidents.event_facts import is_back
from klarm.monitor.monitor import Monitor
from klarm.types import SEVERITIES, Event, EventKind, Incident, Moved, Reason
from klarm.wording import (
    advice,
    event_panel,
    event_paragraphs,
    event_text,
    headline,
    incidents_in_sum,
    number,
    short_title,
    state,
    title,
    why,
)
from made_alerts import made_alert

OPENED = Event(
    event="opened",
    incident=1,
    signal="kl",
    severity="critical",
    step=157,
    started=153,
    detectors=["kl_explosion", "kl_runaway"],
    peak=0.418,
    reason="confirmed",
    message="KL 0.418 is 6.86σ above its rolling baseline.",
    recommendation="Lower the learning rate or raise the KL penalty.",
    id="k3f7q2ab",
    metric="kl",
    rows=5,
    detector="kl_runaway",
)
DIAGNOSED = msgspec.structs.replace(
    OPENED,
    also=(
        Moved("learning_rate", "up", step=152, ratio=100.0),
        Moved("reward", "flat", "flat"),
    ),
    pattern="learning rate raised",
    cause="the learning rate went up and KL followed",
    remedy="Go back to a checkpoint from before the change.",
    action="go_back",
    checkpoint="out/checkpoint-150",
)


def changed(event: EventKind, reason: str, **fields: object) -> Event:
    return msgspec.structs.replace(OPENED, event=event, reason=reason, **fields)


SENTENCES: list[tuple[Event, str]] = [
    (OPENED, "In alert for 5 consecutive rows."),
    (changed("opened", "confirmed", rows=1), "In alert for 1 row."),
    (changed("opened", "confirmed", rows=None), "In alert for several consecutive rows."),
    (
        changed("opened", "confirmed", follows="kaaaaaaa"),
        "In alert for 5 consecutive rows. It follows incident kaaaaaaa.",
    ),
    (
        changed("opened", "decisive"),
        "This kl_runaway alert is enough to open an incident.",
    ),
    (
        changed("opened", "decisive", detector="", detectors=["mine"]),
        "This mine alert is enough to open an incident.",
    ),
    (
        changed("opened", "not_finite"),
        "One NaN or infinite kl is enough to open an incident.",
    ),
    (
        changed("opened", "rolled_back", step=51),
        "Open again: training went back to step 51, before it was resolved.",
    ),
    (
        changed("opened", "confirmed", severity="warning", alert_severity="critical"),
        "In alert for 5 consecutive rows. This alert is critical; the incident becomes "
        "critical if such alerts continue.",
    ),
    (
        changed(
            "escalated", "new_kind", severity="warning", alert_severity="critical", metric="slurs"
        ),
        "Also in alert: kl (kl_runaway). This alert is critical; the incident becomes critical "
        "if such alerts continue.",
    ),
    (
        changed("escalated", "severity_raised", alert_severity="critical"),
        "Raised from warning to critical.",
    ),
    (changed("escalated", "severity_raised"), "Raised from warning to critical."),
    (
        changed("escalated", "far_worse", peak=7.2217, notified=0.12404, notified_step=157),
        "Peak 7.22, up from 0.124 at the last notification (step 157).",
    ),
    (
        changed("escalated", "far_worse", peak="Infinity", notified=0.124),
        "Peak Infinity, up from 0.124 at the last notification.",
    ),
    (
        changed("escalated", "far_worse", peak=0.01, notified=0.3, worse="lower"),
        "Lowest value 0.01, down from 0.3 at the last notification.",
    ),
    (changed("escalated", "far_worse", peak=7.2217), "Peak 7.22."),
    (changed("escalated", "still_not_finite", rows=5), "NaN or infinite in 5 rows so far."),
    (
        changed("escalated", "new_kind", detector="reward_collapse", signal="reward"),
        "Also in alert: reward (reward_collapse).",
    ),
    (
        changed(
            "escalated", "new_kind", detector="reward_drift", signal="reward", subject="reward"
        ),
        "Another detector is in alert, too: reward_drift.",
    ),
    (
        changed("escalated", "new_kind", detectors=["kl_runaway"], metric="kl", subject="kl"),
        "kl_runaway is in alert in the other direction, too.",
    ),
    (
        changed("escalated", "new_kind", detector="mine", signal="toxicity", metric="slurs"),
        "Also in alert: slurs (mine).",
    ),
    (
        changed("settled", "settled", level=0.5452, before=0.024),
        "Alerts have stopped, but KL is still near 0.545, 23 times its earlier level (0.024)"
        ", so the incident stays open.",
    ),
    (
        changed("settled", "settled", metric="grad_norm", level=42.0, before=1.5),
        "Alerts have stopped, but grad_norm is still near 42, 28 times its earlier level (1.5)"
        ", so the incident stays open.",
    ),
    (
        changed("settled", "settled", metric="entropy", worse="lower", level=0.05, before=1.0),
        "Alerts have stopped, but entropy is still near 0.05, a 20th of its earlier level (1)"
        ", so the incident stays open.",
    ),
    (
        changed("settled", "settled", metric="entropy", worse="lower", level=0.5, before=1.0),
        "Alerts have stopped, but entropy is still near 0.5, half its earlier level (1)"
        ", so the incident stays open.",
    ),
    (
        changed("settled", "settled", metric="reward", worse="lower", level=-0.3, before=0.5),
        "Alerts have stopped, but reward is still near -0.3, compared with 0.5 before"
        ", so the incident stays open.",
    ),
    (
        changed("settled", "settled", worse="lower", peak=-0.7, level=-0.5, before=-0.02),
        "Alerts have stopped, but KL is still near -0.5, compared with -0.02 before"
        ", so the incident stays open.",
    ),
    (
        changed("settled", "settled", level=0.5, before=0.0),
        "Alerts have stopped, but KL is still near 0.5, compared with 0 before"
        ", so the incident stays open.",
    ),
    (
        changed("settled", "settled", worse="lower", level=1e-310, before=1.0),
        "Alerts have stopped, but KL is still near 1e-310, compared with 1 before"
        ", so the incident stays open.",
    ),
    (
        changed("settled", "settled", level=0.502, before=0.5),
        "Alerts have stopped, but KL is still near 0.502, compared with 0.5 before"
        ", so the incident stays open.",
    ),
    (
        changed("settled", "settled", level=0.5),
        "Alerts have stopped, but KL is still near 0.5, so the incident stays open.",
    ),
    (
        changed("settled", "settled"),
        "Alerts have stopped, but KL has not recovered, so the incident stays open.",
    ),
    (changed("reopened", "returned", rows=12), "In alert again 12 rows after it was resolved."),
    (changed("reopened", "returned", rows=None), "In alert again shortly after it was resolved."),
    (
        changed("reopened", "alert_while_settled"),
        "Alerts have started again; the metric is no worse than when they stopped.",
    ),
    (changed("opened", "crashed"), "An exception ended the training."),
    (changed("reopened", "resumed"), "The run was resumed; this incident is still open."),
    (changed("resolved", "resumed", step=51), "The run was resumed at step 51."),
    (
        changed("resolved", "recovered", level=0.021, before=0.02),
        "Recovered: KL is back at 0.021 (0.02 before the rise).",
    ),
    (
        changed("resolved", "recovered", rows=20, level=0.05, before=0.02),
        "Over: no alert for 20 rows. KL is at 0.05, nearer to its level before the rise (0.02) "
        "than to its worst (0.418).",
    ),
    (
        changed("resolved", "recovered", rows=20, level=0.005, before=0.02),
        "Over: no alert for 20 rows. KL is at 0.005 (0.02 before the rise).",
    ),
    (
        changed("resolved", "recovered", level=-0.021, before=-0.02, peak=-0.767, worse="lower"),
        "Recovered: KL is back at -0.021 (-0.02 before the fall).",
    ),
    (
        changed(
            "resolved", "recovered", rows=20, level=-0.05, before=-0.02, peak=-0.767, worse="lower"
        ),
        "Over: no alert for 20 rows. KL is at -0.05, nearer to its level before the fall (-0.02) "
        "than to its worst (-0.767).",
    ),
    (
        changed("resolved", "recovered", rows=20, level=0.05, before=0.02, peak="NaN"),
        "Recovered: KL is finite again, at 0.05 (0.02 before).",
    ),
    (
        changed("resolved", "recovered", metric="reward", rows=20, level=1.0, before=0.44),
        "Over: no alert for 20 rows. Reward is at 1 (0.44 before the rise); a higher reward is "
        "not a problem in itself.",
    ),
    (changed("resolved", "recovered", level=0.0211), "Recovered: KL is back at 0.0211."),
    (changed("resolved", "recovered", rows=20), "Recovered: no alert for 20 rows."),
    (changed("resolved", "recovered", rows=None), "Recovered."),
    (changed("resolved", "accepted", level=0.545), "Accepted: 0.545 is the new normal."),
    (
        changed("resolved", "accepted", level=0.545, by="ada"),
        "Accepted by ada: 0.545 is the new normal.",
    ),
    (changed("resolved", "accepted"), "Accepted: this level is the new normal."),
    (changed("resolved", "closed", by="ada"), "Closed by ada."),
    (changed("resolved", "closed"), "Closed."),
    (changed("resolved", "superseded"), "Superseded by a new incident."),
    (changed("resolved", "rolled_back", step=51), "Rolled back: training went back to step 51."),
    (
        changed("reopened", "back_in_time", step=51),
        "Training went back to step 51, before it settled.",
    ),
    (
        changed("resolved", "lost"),
        "No longer watched: its detector is off now, or its record is damaged.",
    ),
    (changed("ended", "finished"), "The run ended with this incident open."),
    (
        changed("ended", "crashed"),
        "The run failed or was killed with this incident open.",
    ),
    (
        changed("ended", "interrupted"),
        "The run was cut short (Ctrl-C or an early exit) with this incident open.",
    ),
    (changed("opened", ""), ""),
]


@over("event, sentence", SENTENCES)
def test_every_change_has_its_sentence(event: Event, sentence: str) -> None:
    """From the numbers of the event; those that are missing are left out."""
    assert why(event) == sentence


def test_every_reason_of_the_enumeration_has_a_sentence() -> None:
    """A reason that is added and not rendered would be shown by its identifier."""
    shown = {event.reason for event, _ in SENTENCES}
    missing = set(get_args(Reason)) - shown
    assert missing == set(), (
        "give each of these a sentence in SENTENCES of wording/reasons.py, and an example in "
        "SENTENCES of this file"
    )
    for reason in get_args(Reason):
        assert reason not in why(changed("opened", reason)).split()


@over(
    "event, line",
    [
        (
            DIAGNOSED,
            "kl critical, began at step 153 (opened at step 157), pattern: learning rate raised",
        ),
        (
            changed("escalated", "severity_raised"),
            "kl critical, began at step 153 (escalated at step 157)",
        ),
        (
            changed("escalated", "new_kind", severity="warning"),
            "kl warning, began at step 153 (further alert at step 157)",
        ),
        (
            changed("settled", "settled", step=200),
            "kl critical, began at step 153 (settled at step 200)",
        ),
        (
            changed("reopened", "returned"),
            "kl critical, began at step 153 (open again at step 157)",
        ),
        (
            changed("ended", "crashed"),
            "kl critical, began at step 153 (unresolved when the run ended)",
        ),
        (
            changed("resolved", "recovered", step=200),
            "kl resolved (recovered), critical, steps 153 to 200",
        ),
        (
            changed("resolved", "closed", step=200, by="ada", recovered=False),
            "kl resolved (closed), critical, steps 153 to 200",
        ),
        (
            changed("resolved", "rolled_back", step=51),
            "kl rolled back, training went back to step 51",
        ),
    ],
)
def test_a_title_has_signal_severity_start_and_state(event: Event, line: str) -> None:
    """One line, the same for every channel."""
    assert title(event) == line


def test_an_opened_incident_is_rendered_in_full() -> None:
    """What, since when, what it looks like, the one thing to do first, then the details."""
    assert event_text(DIAGNOSED).splitlines() == [
        "klarm INCIDENT 1 on kl opened, critical, step 157: "
        "KL 0.418 is 6.86σ above its rolling baseline.",
        "  Since step 153. In alert for 5 consecutive rows.",
        "  Likely cause: the learning rate went up and KL followed.",
        "  -> Go back to a checkpoint from before the change.",
        "  Last good checkpoint: out/checkpoint-150",
        "  Also moved: learning_rate ×100 since step 152; no clear change: reward.",
    ]
    assert event_paragraphs(DIAGNOSED).splitlines() == [
        "Step 157: KL 0.418 is 6.86σ above its rolling baseline.",
        "Since step 153. In alert for 5 consecutive rows.",
        "Likely cause: the learning rate went up and KL followed.",
        "To do: Go back to a checkpoint from before the change.",
        "Last good checkpoint: out/checkpoint-150",
        "Also moved: learning_rate ×100 since step 152; no clear change: reward.",
    ]


def test_a_panel_has_the_same_lines() -> None:
    """Below a title with number, signal, severity and step."""
    out = io.StringIO()
    Console(file=out, width=100).print(event_panel(DIAGNOSED))
    top, *lines, _ = out.getvalue().splitlines()
    assert top.startswith("╭─ klarm incident 1 on kl opened, critical, step 157 ─")
    first, *rest = event_text(DIAGNOSED).splitlines()
    assert [line.strip("│ ") for line in lines] == [
        first.partition(": ")[2],
        *(line.strip().replace("->", "→") for line in rest),
    ]


def test_the_peak_of_the_last_report_has_its_step() -> None:
    """Readers look for the number in the last report, which may have that of the last row."""
    run = [0.02 + 0.001 * (step % 3) for step in range(60)] + [1.5, 1.2, 1.3, 1.1, 1.2, 40.0]
    monitor = Monitor("a", [KLBudgetDetector()])
    events: list[Event] = []
    monitor.on_event.append(events.append)
    for step, kl in enumerate(run):
        monitor.log({"kl": kl}, step)
    opened, escalated = events
    assert (opened.event, escalated.reason) == ("opened", "far_worse")
    assert why(escalated) == (
        f"Peak 40, up from {number(opened.peak)} at the last notification (step {opened.step})."
    )


def test_the_line_of_other_metrics_is_left_out_if_none_moved() -> None:
    """There is nothing to say."""
    assert "moved" not in event_text(msgspec.structs.replace(DIAGNOSED, also=()))


def test_an_escalation_by_another_metric_begins_with_what_changed() -> None:
    """The heading names the metric of the incident, so other numbers would come unexpected."""
    further = changed("escalated", "new_kind", subject="loss", metric="kl", pattern="")
    first, second, third, *_ = event_text(further).splitlines()
    assert first.endswith(
        "on loss further alert, critical, step 157: Also in alert: kl (kl_runaway)."
    )
    assert (second.strip(), third.strip()) == (OPENED.message, "Since step 153.")


def test_later_events_are_rendered_in_short() -> None:
    """An escalation has its cause and what to do; what became of it is one line."""
    escalated = msgspec.structs.replace(DIAGNOSED, event="escalated", reason="severity_raised")
    assert event_text(escalated) == (
        "klarm INCIDENT 1 on kl escalated, critical, step 157: "
        "KL 0.418 is 6.86σ above its rolling baseline.\n"
        "  Since step 153. Raised from warning to critical.\n"
        "  Likely cause: the learning rate went up and KL followed."
        "\n  -> Go back to a checkpoint from before the change.\n"
        "  Last good checkpoint: out/checkpoint-150"
    )
    worse = changed("escalated", "far_worse", peak=0.608, notified=0.0485)
    assert event_text(worse).startswith("klarm INCIDENT 1 on kl far worse, critical, step 157:")
    place = "at step 200 (critical, began at step 153)."
    for event, line in (
        (
            changed("settled", "settled", level=0.5),
            f"settled {place} Alerts have stopped, but KL is still near 0.5"
            ", so the incident stays open.",
        ),
        (
            changed("reopened", "returned", rows=9),
            f"open again {place} In alert again 9 rows after it was resolved.",
        ),
        (changed("resolved", "closed", by="ada"), f"resolved {place} Closed by ada."),
        (
            changed("resolved", "rolled_back"),
            "(critical, began at step 153). Rolled back: training went back to step 200.",
        ),
        (
            changed("ended", "finished"),
            f"unresolved when the run ended {place.removesuffix('.')}",
        ),
    ):
        text = event_text(msgspec.structs.replace(event, step=200))
        assert text.startswith(f"klarm INCIDENT 1 on kl {line}")
        assert "\n" not in text


def test_the_headline_has_the_numbers_of_an_alarm_and_later_the_reason() -> None:
    """What a phone shows of a notification."""
    assert headline(OPENED) == OPENED.message
    assert headline(changed("escalated", "severity_raised")) == OPENED.message
    assert headline(changed("resolved", "closed", by="ada")) == "Closed by ada."


def test_the_remedy_of_the_playbook_takes_precedence() -> None:
    """It knows what else moved; two pieces of advice side by side may disagree."""
    remedy, general = DIAGNOSED.remedy, DIAGNOSED.recommendation
    assert advice(DIAGNOSED) == [remedy]
    assert advice(OPENED) == [general]
    assert advice(changed("settled", "settled"), DIAGNOSED) == [remedy]


def test_an_escalation_without_a_remedy_has_its_own_recommendation() -> None:
    """The remedy of the opening was for a warning."""
    general = changed("escalated", "severity_raised").recommendation
    assert advice(changed("escalated", "severity_raised"), DIAGNOSED) == [general]


def test_the_advice_on_a_run_that_has_ended_is_about_its_checkpoints() -> None:
    """There is nothing left to stop; what to change in the next run is still said."""
    for reason in ("finished", "crashed", "interrupted"):
        ended = changed("ended", reason)
        assert advice(ended, DIAGNOSED) == [
            "Do not use checkpoints that were saved since step 153. "
            "Go back to a checkpoint from before the change."
        ]
    remedy = "Stop, and read some samples."
    early = msgspec.structs.replace(DIAGNOSED, onset=140, remedy=remedy, action="")
    assert advice(changed("ended", "finished"), early) == [
        "Do not use checkpoints that were saved since step 140: go back to an earlier one."
    ]
    assert advice(changed("ended", "finished", severity="warning")) == [
        "Evaluate checkpoints that were saved since step 153 before you use them."
    ]
    assert advice(changed("ended", "finished", severity="warning"), DIAGNOSED) == [DIAGNOSED.remedy]
    named = msgspec.structs.replace(DIAGNOSED, action="go_back_before_step")
    assert advice(changed("ended", "finished"), named) == [DIAGNOSED.remedy]
    # What a lost metric leaves to do is the same as before.
    lost = changed("ended", "finished", metric="")
    assert advice(lost) == [lost.recommendation]


@over("reason", ENDINGS)
def test_nothing_is_left_to_do_once_it_is_resolved(reason: str) -> None:
    """Whether or not its metric is back: a person or a newer incident has taken over."""
    assert advice(changed("resolved", reason, recovered=False), DIAGNOSED) == []


def test_the_metric_is_that_of_the_event_or_of_its_first_detector() -> None:
    """Events of format 1 have none; a detector may watch all alike, or be unknown here."""
    bare = msgspec.structs.replace(OPENED, metric="")
    assert metric_of(msgspec.structs.replace(OPENED, metric="toxicity")) == "toxicity"
    assert metric_of(bare) == "kl"
    assert metric_of(msgspec.structs.replace(bare, detectors=["loss_nan"])) == "loss"
    assert metric_of(msgspec.structs.replace(bare, detectors=["metric_lost"])) == ""
    assert metric_of(msgspec.structs.replace(bare, detectors=["from_the_future"])) == ""
    assert metric_of(msgspec.structs.replace(bare, detectors=[])) == ""


def test_every_short_title_fits_into_a_trackers_alert() -> None:
    """W&B takes less than 64 characters, even for the 999th incident of the longest signal."""
    assert short_title(OPENED) == "klarm: critical on kl (opened, incident 1)"
    for signal in [kind.signal for kind in CATALOGUE] + ["a_custom_signal_with_a_long_name" * 2]:
        event = changed("escalated", "severity_raised", incident=999, signal=signal)
        assert len(short_title(event)) < 64


texts = st.text(max_size=20)
numbers = st.none() | st.floats()


@given(
    kind=st.sampled_from(get_args(EventKind)),
    reason=st.sampled_from(get_args(Reason)) | texts,
    severity=st.sampled_from(SEVERITIES),
    names=st.tuples(texts, texts, texts, st.lists(texts, max_size=2)),
    level=numbers,
    before=numbers,
    peak=st.floats() | st.sampled_from(["NaN", "Infinity", "-Infinity"]),
    notified=numbers | st.just("NaN"),
    rows=st.none() | st.integers(0, 10**9),
    worse=st.sampled_from(["higher", "lower"]),
)
def test_any_event_can_be_rendered(
    kind: EventKind,
    reason: str,
    severity: str,
    names: tuple[str, str, str, list[str]],
    **numbers: object,
) -> None:
    """Of detectors, metrics and signals that nobody here has heard of, with any numbers."""
    signal, metric, detector, detectors = names
    event = changed(
        kind,
        reason,
        severity=severity,
        signal=signal,
        metric=metric,
        detector=detector,
        detectors=detectors,
        **numbers,
    )
    for render in (why, state, title, short_title, headline, event_text, event_paragraphs):
        assert isinstance(render(event), str)
    Console(file=io.StringIO()).print(event_panel(event))


def test_the_summary_of_a_run_lists_its_latest_incidents() -> None:
    """With signal, severity and steps; how many there were in all."""
    alert = made_alert({"kl": 1.0}, detector="kl_runaway")

    def incident(number: int, **fields: object) -> Incident:
        known = Incident("kl", "kl", number, "open", "warning", [], 1, 3, alert, 1.0, "higher")
        return msgspec.structs.replace(known, number=number, opened=number + 4, **fields)

    assert incidents_in_sum([]) == "no incident"
    assert incidents_in_sum([msgspec.structs.replace(incident(1), opened=None)]) == "no incident"
    assert incidents_in_sum([incident(7, severity="critical")]) == (
        "1 incident\n  7 on kl: critical, began at step 7, still open"
    )
    assert incidents_in_sum([incident(7, state="settled", level=0.5)]) == (
        "1 incident\n  7 on kl: warning, began at step 7, still open"
    )
    assert incidents_in_sum([incident(7, state="ended")]) == (
        "1 incident\n  7 on kl: warning, began at step 7, unresolved"
    )
    assert incidents_in_sum([incident(7, state="ended", level=0.5)]) == (
        "1 incident\n  7 on kl: warning, began at step 7, unresolved"
    )
    assert (
        incidents_in_sum(
            [incident(7, state="resolved", reason="recovered", ended=40, at_new_level=True)]
        )
        == "1 incident\n  7 on kl: warning, steps 7 to 40, resolved at a new level"
    )
    many = [
        incident(number, state="resolved", reason="recovered", ended=number + 30)
        for number in range(12)
    ]
    assert incidents_in_sum(reversed(many), "; see it").splitlines() == [
        "12 incidents; see it",
        "  2 earlier incidents",
        *(
            f"  {number} on kl: warning, steps {number} to {number + 30}, recovered"
            for number in range(2, 12)
        ),
    ]
    assert "\n  1 earlier incident\n" in incidents_in_sum(many[1:])


def test_the_docs_quote_the_sentences() -> None:
    """docs/incidents.md has a row for every reason, with a sentence that can be had."""
    docs = (Path(__file__).parents[2] / "docs" / "incidents.md").read_text()
    rows = re.findall(r"^\| \w* ?\| `(\w+)` \| (.+) \|$", docs, re.MULTILINE)
    different = {reason for reason, _ in rows} ^ set(get_args(Reason))
    assert different == set(), "docs/incidents.md and Reason differ in these"
    said = {(event.reason, sentence) for event, sentence in SENTENCES}
    assert [row for row in rows if row not in said] == []


def test_every_escalation_at_the_same_severity_has_a_title_of_its_own() -> None:
    """The word *escalated* would mean that it became critical, which it may have been before."""
    known = set(get_args(Reason))  # without the sentences of old journals
    reasons = {e.reason for e, _ in SENTENCES if e.event == "escalated" and e.reason in known}
    without = {
        reason
        for reason in reasons - {"severity_raised"}
        if state(changed("escalated", reason)) == state(changed("escalated", "severity_raised"))
    }
    assert without == set(), "add these to _NOT_MORE_SEVERE of klarm/wording/events.py"


def test_a_title_claims_no_recovery_of_a_reward_that_stays_up() -> None:
    """It is over because there are no more alerts, at a new level."""
    over = changed("resolved", "recovered", metric="reward", rows=20, level=1.74, before=-0.06)
    assert "resolved (at a new level)" in title(over)
    back = changed("resolved", "recovered", rows=20, level=0.021, before=0.02)
    assert "resolved (recovered)" in title(back)


def test_a_reward_that_lost_a_third_is_not_called_back() -> None:
    """A KL half above its earlier level is: it is compared by ratios, and grows anyway."""
    lost = changed("resolved", "recovered", metric="reward", worse="lower", before=0.845)
    assert not is_back(msgspec.structs.replace(lost, level=0.583))
    assert is_back(msgspec.structs.replace(lost, level=0.7))
    assert is_back(changed("resolved", "recovered", level=0.028, before=0.02))
