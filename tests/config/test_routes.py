"""Which messages a channel takes."""

from __future__ import annotations

from typing import Any

import msgspec

from cases import over
from klarm.channels.message import Message
from klarm.config.layers import load


@over(
    "settings, change, taken",
    [
        ({}, {}, True),
        ({"severity": "critical"}, {}, True),
        ({"severity": "critical"}, {"severity": "warning"}, False),
        ({"severity": "critical"}, {"severity": "warning", "test": True}, True),
        ({"severity": "critical"}, {"event": "resolved"}, True),
        ({"signals": ["kl", "loss"]}, {}, True),
        ({"signals": "kl, loss"}, {}, True),
        ({"signals": ["reward"]}, {}, False),
        ({"signals": ["re*"]}, {"signal": "reward"}, True),
        ({"runs": "grpo-*"}, {}, True),
        ({"runs": ["ppo-*", "grpo-7b"]}, {}, True),
        ({"runs": ["ppo-*", "GRPO-*"]}, {}, False),
    ],
)
def test_a_route_takes_what_it_is_for(
    message: Message, settings: dict[str, Any], change: dict[str, Any], taken: bool
) -> None:
    """By severity, signal and run; a test goes everywhere."""
    config = load(overrides={"channels": {"desktop": settings}})
    (route,) = config.channels()
    assert route.takes(msgspec.structs.replace(message, **change)) is taken
