"""What is not in its catalogue is never used: every detector and every channel has its line."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import klarm
from klarm.channels import CHANNELS
from klarm.detectors import CATALOGUE, known_signals
from klarm.incidents.playbook import PATTERNS

SOURCE = Path(klarm.__file__).parent


def declaring(package: str, attribute: str) -> set[str]:
    """Return what the classes of a package declare this attribute as."""
    return {
        ast.literal_eval(line.value)
        for path in (SOURCE / package).glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
        for line in node.body
        if isinstance(line, ast.AnnAssign) and line.value is not None
        if isinstance(line.target, ast.Name) and line.target.id == attribute
    }


def test_every_detector_is_in_the_catalogue() -> None:
    """By its name."""
    different = declaring("detectors", "name") ^ {kind.name for kind in CATALOGUE}
    assert different == set(), "CATALOGUE in detectors/__init__.py differs in these"


def test_an_id_from_an_answer_is_recorded_only_without_a_secret() -> None:
    """A service may repeat in its answer what it was sent, and the id is recorded and printed."""
    for path in (SOURCE / "channels").glob("*.py"):
        text = path.read_text()
        reads = re.search(r"(=|return) .*\.json\(self\)|\.json\(self\)[.\[]", text)
        is_safe = reads is None or "self.answered_id(" in text
        assert is_safe, f"channels/{path.name} must take an id from an answer with answered_id"


def test_every_channel_is_in_the_catalogue() -> None:
    """By its type."""
    different = declaring("channels", "type") ^ CHANNELS.keys()
    assert different == set(), "CHANNELS in channels/__init__.py differs in these"


def test_every_signal_has_patterns_that_explain_it() -> None:
    """Except for metrics that are no longer logged, whose cause no other metric can show."""
    explained = {signal for pattern in PATTERNS for signal in pattern.explains}
    missing = set(known_signals()) - explained - {"liveness"}
    assert missing == set(), "add these to `explains` of patterns in incidents/playbook.py"
