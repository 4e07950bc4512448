"""The curve as a picture, and no picture where there can be none."""

from __future__ import annotations

import math
import struct
import sys
from typing import Any

import msgspec
import pytest

from cases import over
from klarm.channels.curve import curve_png
from klarm.channels.discord import DiscordChannel
from klarm.channels.message import Message
from klarm.settings.secret import Secret


def test_the_curve_is_a_small_png(message: Message) -> None:
    """Of a size that a telephone shows."""
    image = curve_png(message)
    assert image is not None
    assert image.startswith(b"\x89PNG\r\n\x1a\n")
    assert struct.unpack(">II", image[16:24]) == (720, 280)
    assert len(image) < 100_000


@over(
    "values",
    [
        [0.0] * 5,
        [1e100, -1e100, 0.0, 1e-100],
        [1e-9, 1e9, 1e-9, 1e-9],
        [math.nan, 1.0, 2.0, math.inf, 3.0],
        [-5.0, -4.0, -3.0],
    ],
)
def test_any_curve_can_be_drawn(message: Message, values: list[float]) -> None:
    """And a run's name is no formula."""
    curve = list(enumerate(values))
    strange = msgspec.structs.replace(message, curve=curve, started=2, run="$\\frac{ $ ä _^")
    assert curve_png(strange) is not None


def test_a_few_points_are_no_curve(message: Message) -> None:
    """Nor are values none of which is finite."""
    assert curve_png(msgspec.structs.replace(message, curve=[(1, 0.1), (2, 0.2)])) is None
    assert (
        curve_png(msgspec.structs.replace(message, curve=[(s, math.nan) for s in range(9)])) is None
    )


def test_without_matplotlib_the_message_goes_without_a_picture(
    service: Any, message: Message, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is an extra."""
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert curve_png(message) is None
    service.always(200, {"id": "1"})
    DiscordChannel(webhook_url=Secret(f"{service.url}/x")).send(message, {})
    assert service.calls[0].headers["Content-Type"] == "application/json"
