"""A server to tell things to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from loopback import Server
from one_channel import Run

from pulse import Pulse


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.fixture
def run(server: Server) -> Run:
    return Run(server)


@pytest.fixture
def pulse() -> Iterator[Pulse]:
    pulse = Pulse()
    yield pulse
    pulse.close()
