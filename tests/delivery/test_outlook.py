"""The outlook: what people read of a channel that takes no messages."""

from __future__ import annotations

from pathlib import Path

from klarm.delivery.outlook import LIVE, Outlook, command_to_deliver


def test_a_live_run_says_that_it_retries() -> None:
    """In one line each, beginning with the channel."""
    assert LIVE.failed("slack", "HTTP 500") == "slack: delivery failed (HTTP 500); retrying."
    assert LIVE.works_again("slack") == "slack: delivery works again."
    assert LIVE.rejected_in_a_row("slack", 3) == (
        "slack: 3 messages rejected in a row; retrying every 15 minutes. Fix the channel and check "
        "it with `klarm test-alert`."
    )


def test_a_rejection_names_the_command_where_there_is_a_record_to_send_from() -> None:
    """A run that is not recorded has none."""
    known = Outlook(command=command_to_deliver(Path("runs/a"), again=True))
    assert "`klarm deliver runs/a --again` sends everything" in known.rejected("slack", "HTTP 404")
    assert "klarm deliver" not in LIVE.rejected("slack", "HTTP 404")


def test_a_folder_with_spaces_can_be_pasted() -> None:
    """It is quoted as shells want it."""
    assert command_to_deliver(Path("my runs/a")) == "klarm deliver 'my runs/a'"
