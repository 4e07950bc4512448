"""A run that tells things to the server, and a pulse."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from loopback import Server
from one_channel import Run

from pulse import Pulse


@pytest.fixture
def run(server: Server) -> Run:
    return Run(server)


@pytest.fixture
def pulse() -> Iterator[Pulse]:
    pulse = Pulse()
    yield pulse
    pulse.close()
