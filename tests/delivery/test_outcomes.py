"""Outcomes: what outcomes.py makes of the deliveries; test_rejected.py has the rejections."""

from __future__ import annotations

from one_channel import Run


def test_an_edit_overtakes_nothing(run: Run) -> None:
    """What a silence holds back is still news after it."""
    escalated = run.tell("escalated", step=12)
    settled = run.tell("settled", step=40)
    run.outbox.settle("hook", [settled], "sent")
    assert run.outbox.outcomes.unsettled("hook", [escalated, settled]) == [escalated]


def test_a_channel_is_notified_of_what_it_accepted_only(run: Run) -> None:
    """Neither a rejection nor the deliveries of another channel count."""
    opened = run.tell("opened")
    outcomes = run.outbox.outcomes
    run.outbox.settle("hook", [opened], "refused")
    run.outbox.settle("pager", [opened], "sent", receipt={"key": "1"})
    assert outcomes.receipt("hook", opened.id) is None
    assert outcomes.last_sent("hook") is outcomes.sent_at("hook", opened.id) is None
    assert outcomes.receipt("pager", opened.id) == {"key": "1"}
    assert outcomes.last_sent("pager") == outcomes.sent_at("pager", opened.id) == run.now


def test_a_channel_that_no_longer_takes_an_incident_has_not_rejected_it(run: Run) -> None:
    """Its route was changed after the rejection."""
    opened = run.tell("opened")
    run.outbox.settle("hook", [opened], "refused")
    assert run.outbox.rejections("hook") == 1
    run.outbox.outcomes.pass_over("hook", [opened])
    assert run.outbox.rejections("hook") == 0
    assert run.outbox.outcomes.is_settled("hook", opened)
