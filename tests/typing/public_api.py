"""What a user of klarm writes: mypy must find nothing wrong with it, and know every type."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import klarm
from klarm import Alert, Channel, Detector, Message, Secret, Severity, setting
from klarm.testing import alerts_of, check_detector, events_of, example_message

if TYPE_CHECKING:
    from typing_extensions import assert_type


@dataclass(kw_only=True, eq=False)
class FloorDetector(Detector):
    """A detector as the docs have it."""

    name: ClassVar[str] = "floor"
    signal: ClassVar[str] = "reward"
    watches: ClassVar[tuple[str, ...]] = ("reward",)
    messages: ClassVar[Mapping[str, str]] = {"warning": "Low: {value}."}
    recommendations: ClassVar[Mapping[Severity, str]] = {"warning": "Look at some samples."}

    floor: float = setting(0.0, "a warning below this")

    def _start(self) -> None:
        self.lowest = 0.0

    def _observe(self, step: int, value: float) -> Alert | None:
        self.score = self.floor - value
        return self._alert("warning", step, value) if self.score > 0 else None


@dataclass(kw_only=True, repr=False)
class QuietChannel(Channel):
    """A channel as the docs have it."""

    type: ClassVar[str] = "quiet"

    token: Secret = setting(Secret(), "who we are")

    def send(self, message: Message, earlier: Mapping[str, str]) -> dict[str, str]:
        if not self.token.reveal():
            raise self.not_delivered("no token", retry=False)
        return {"title": message.title, **earlier}


def train() -> None:
    """Use every public name."""
    config = klarm.Config.load(kl_explosion={"sigma_multiplier": 5.0})
    monitor = klarm.init(
        "a", config, detectors=[FloorDetector(floor=1.0)], channels=[QuietChannel(name="q")]
    )
    assert_type(monitor, klarm.Monitor)
    assert_type(klarm.log({"kl": 0.1}, step=3), list[klarm.Alert])
    assert_type(monitor.incidents, list[klarm.Incident])
    received: list[klarm.Event] = []
    monitor.on_event.append(received.append)
    klarm.finish()
    klarm.init(channels={"slack": {"webhook_url": {"env": "HOOK"}}}, detectors=[FloorDetector])
    with contextlib.suppress(klarm.ConfigError):
        klarm.init(config="klarm.yaml", rank=0)


def test_them() -> None:
    """Use what is there for tests."""
    assert_type(alerts_of(FloorDetector(), [0.1, 0.2]), list[Alert])
    assert_type(events_of(FloorDetector(), [{"reward": 0.1}]), list[klarm.Event])
    check_detector(FloorDetector)
    assert_type(QuietChannel().send(example_message(), {}), dict[str, str])


def use_wrongly() -> None:
    """Mistakes that mypy must find: warn_unused_ignores fails where it does not."""
    klarm.init(run=3)  # type: ignore[arg-type]
    klarm.init(detectors=[QuietChannel()])  # type: ignore[list-item]
    klarm.log(0.1)  # type: ignore[arg-type]
    FloorDetector(flor=1.0)  # type: ignore[call-arg]
    klarm.Monitor.source  # type: ignore[attr-defined]  # noqa: B018
    klarm.Monitor.bound  # type: ignore[attr-defined]  # noqa: B018
    klarm.Monitor.logged_by  # type: ignore[attr-defined]  # noqa: B018
