"""The examples of a detector and a channel of one's own run, and do what they say.

The others need frameworks: tests/frameworks/test_examples.py.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from klarm.testing import check_detector
from recorded_lines import lines_of

EXAMPLES = Path(__file__).parents[1] / "examples"


def run(example: str) -> list[dict[str, object]]:
    subprocess.run(
        [sys.executable, str(EXAMPLES / f"{example}.py")],
        check=True,
        capture_output=True,
        timeout=120,
    )
    return lines_of(example.replace("_", "-"))


def test_the_custom_detector_opens_an_incident_of_its_own() -> None:
    """After the run has begun to forget, and nothing else is alarmed about."""
    events = [row for row in run("custom_detector") if row["type"] == "event"]
    assert {row["signal"] for row in events} == {"pass_rate"}
    assert [row["event"] for row in events] == ["opened", "escalated", "ended"]
    assert int(str(events[0]["step"])) > 100


def test_the_custom_channel_is_notified() -> None:
    """Of the explosion, in order."""
    events = [row for row in run("custom_channel") if row["type"] == "event"]
    lines = [json.loads(line) for line in Path("messages.jsonl").read_text().splitlines()]
    assert events[0]["signal"] == "kl"
    assert lines[0]["title"].startswith("custom-channel: kl ")
    assert lines[0]["follows"] == ""
    assert all(line["follows"] for line in lines[1:])


@pytest.mark.parametrize("example", ["custom_detector", "custom_channel"])
def test_the_examples_need_numpy_only(example: str) -> None:
    """Whoever has klarm can run them."""
    needed = set()
    for node in ast.walk(ast.parse((EXAMPLES / f"{example}.py").read_text())):
        if isinstance(node, ast.Import):
            needed |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            needed.add((node.module or "").split(".")[0])
    assert needed - sys.stdlib_module_names == {"klarm", "numpy"}


def test_the_custom_detector_keeps_the_contract() -> None:
    """Whoever copies it begins with a good one."""
    sys.path.insert(0, str(EXAMPLES))
    try:
        from custom_detector import ForgettingDetector
    finally:
        sys.path.remove(str(EXAMPLES))
    check_detector(ForgettingDetector)
