"""A detector and a channel of a user's own, and a package that brings others."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import klarm
from klarm.channels.base import Receipt

SENT: list[klarm.Message] = []


@dataclass(kw_only=True, eq=False)
class PassRateDetector(klarm.Detector):
    """Warns when the pass rate, which is no metric of klarm's, is below a floor."""

    name: ClassVar[str] = "pass_rate_floor"
    signal: ClassVar[str] = "pass_rate"
    watches: ClassVar[tuple[str, ...]] = ("pass_rate",)
    worse: ClassVar = "lower"
    has_fixed_limit: ClassVar[bool] = True
    messages: ClassVar[Mapping[str, str]] = {"critical": "Pass rate {value}, lowest {lowest}."}
    recommendations: ClassVar[Mapping[klarm.Severity, str]] = {"critical": "Look at some samples."}

    warmup_steps: int = klarm.setting(0, "the first values, from which it only learns", at_least=0)
    floor: float = klarm.setting(0.1, "critical below this")

    def _start(self) -> None:
        self.lowest = math.inf

    def _observe(self, step: int, value: float) -> klarm.Alert | None:
        self.lowest = min(self.lowest, value)
        self.score = self.floor - value
        if self.score <= 0:
            return None
        return self._alert("critical", step, value, {"lowest": self.lowest})


@dataclass(kw_only=True, repr=False)
class ListChannel(klarm.Channel):
    """Keeps what it is given."""

    type: ClassVar[str] = "list"

    token: klarm.Secret = klarm.setting(klarm.Secret(), "who we are")
    prefix: str = klarm.setting("", "what a title begins with")

    def send(self, message: klarm.Message, earlier: Mapping[str, str]) -> Receipt:
        SENT.append(message)
        return {"prefix": self.prefix, "name": self.name}


PACKAGE = """
    from klarm import Alert, Channel, Detector, setting
    from dataclasses import dataclass
    from typing import ClassVar

    @dataclass(kw_only=True, eq=False)
    class LateDetector(Detector):
        '''Finds what is late.'''

        name: ClassVar = "lateness"
        signal: ClassVar = "lateness"
        watches: ClassVar = ("seconds_per_step",)
        messages: ClassVar = {"warning": "Late."}
        recommendations: ClassVar = {"warning": "Look at the loader."}
        warmup_steps: int = setting(0, "the first values, from which it only learns", at_least=0)
        seconds: float = setting(10.0, "a warning above this", above=0)

        def _start(self):
            pass

        def _observe(self, step, value):
            self.score = value - self.seconds
            return self._alert("warning", step, value) if self.score > 0 else None

    class NullChannel(Channel):
        type: ClassVar = "void"

        def send(self, message, earlier):
            return {}
"""


def install(name: str, code: str, entry_points: str) -> None:
    """Put a package beside the test, as pip would."""
    site = Path("site").absolute()
    site.mkdir(exist_ok=True)
    (site / f"{name}.py").write_text(textwrap.dedent(code))
    folder = site / f"{name}-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(textwrap.dedent(entry_points))


GOOD = """
    [klarm.detectors]
    lateness = late_package:LateDetector
    [klarm.channels]
    void = late_package:NullChannel
"""
