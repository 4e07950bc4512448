"""The line that says what else moved, from the facts of the movements."""

from __future__ import annotations

import pytest

from klarm.types import Moved
from klarm.wording import what_moved

LOSS = Moved("loss", "up", step=612, ratio=4.0)


@pytest.mark.parametrize(
    ("moved", "line"),
    [
        (Moved("kl", "up", step=5), "kl up since step 5"),
        (Moved("kl", "broken", step=5), "kl not finite since step 5"),
        (Moved("kl", "up", key="KL_div", step=5, ratio=2), "kl (KL_div) ×2 since step 5"),
        (Moved("kl", "up", step=5, ratio=9, turned="down", now_ratio=2), "kl ×9 (now ×2) since"),
        (Moved("a", "up", step=5, before=0, reached=2, turned="down", now=1), "a 0 → 2 (now 1) "),
        (Moved("kl", "up", step=5, turned="down"), "kl up (now down) since step 5"),
        (Moved("kl", "down", "in_alert", step=5), "kl has fallen since step 5"),
        (Moved("kl", "broken", "in_alert", step=5), "kl has not been finite since step 5"),
        (Moved("reward", "up", "gradual", rows=100, ratio=1.1), "reward up 10% over the last 100"),
        (Moved("a", "down", "gradual", rows=9, before=3, reached=1), "a down from 3 to 1 over"),
        (Moved("a", "down", "gradual", rows=9), "a down over the last 9 rows"),
        (Moved("a", "down", "as_before"), "nothing new (a keeps falling as before)"),
        (Moved("a\x1b[2J\nb", "up", step=5), "a\\x1b[2J\\nb up since step 5"),
    ],
)
def test_each_kind_of_movement_has_its_words(moved: Moved, line: str) -> None:
    """What is unknown is left out."""
    assert what_moved([moved]).startswith(line)


def test_parts_of_a_reward_come_first() -> None:
    """They are why the reward moved; an earlier movement of something else follows."""
    part = Moved("rewards/format", "down", step=620, ratio=0.5, is_part=True)
    assert what_moved([LOSS, part]) == (
        "rewards/format ×0.5 since step 620; loss ×4 since step 612"
    )


def test_nothing_is_said_of_nothing() -> None:
    """Not even until when it was seen."""
    assert what_moved([], as_of=700) == ""
